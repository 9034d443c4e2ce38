// Hash tables beside elf's tree, for `scripts/bench cbt`: counts the keys that come on standard input.
//
// Input: batches of u32 count, u32 bytes, `count` lengths of a byte each, the keys end to end; a count of 0 ends it.
// Output: a line of JSON with the cost, then a line `key count` for every key, for the bench to check.
// Reading input and printing results is not in the CPU time. Build with -DPEER_SPARSE, -DPEER_ABSL or -DPEER_ROBIN.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#if defined(PEER_SPARSE)
#include <sparsehash/sparse_hash_map>
using Table = google::sparse_hash_map<std::string, uint64_t, std::hash<std::string>>;
static void count(Table& table, std::string_view key) { ++table[std::string(key)]; }
#elif defined(PEER_ABSL)
#include <absl/container/flat_hash_map.h>
using Table = absl::flat_hash_map<std::string, uint64_t>;
static void count(Table& table, std::string_view key) {
    ++table[absl::string_view(key.data(), key.size())];  // which may or may not be the standard one
}
#elif defined(PEER_ROBIN)
#include <tsl/robin_map.h>
using Table = tsl::robin_map<std::string, uint64_t>;
static void count(Table& table, std::string_view key) { ++table[std::string(key)]; }
#else
#error "say which table"
#endif

static double cpu_s() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

// A figure of /proc/self/status or smaps_rollup, in bytes.
static long long bytes_of(const char* path, const char* name) {
    FILE* file = std::fopen(path, "r");
    char line[256];
    long long kibibytes = 0;
    while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) {
        if (std::strncmp(line, name, std::strlen(name)) == 0) kibibytes = std::atoll(line + std::strlen(name));
    }
    if (file != nullptr) std::fclose(file);
    return kibibytes * 1024;
}

static void read_all(void* to, size_t size) {
    if (size != 0 && std::fread(to, 1, size, stdin) != size) {
        std::fprintf(stderr, "the input ended early\n");
        std::exit(1);
    }
}

static uint64_t drain(const Table& table) {
    uint64_t sum = 0;
    for (const auto& entry : table) sum += entry.second + (entry.first.size() << 40);
    return sum;
}

static uint64_t warm_up() {
    Table table;
    char key[16];
    for (int id = 0; id < 65536; ++id) {
        std::snprintf(key, sizeof key, "p-%08d", id % 10000);
        count(table, key);
    }
    return drain(table);
}

int main() {
    constexpr size_t kBatchRows = 65536, kKeyBytesMax = 20;
    std::vector<uint8_t> lengths(kBatchRows, 1);
    std::vector<char> bytes(kBatchRows * kKeyBytesMax, 1);
    uint64_t sum = warm_up();
    if (FILE* reset = std::fopen("/proc/self/clear_refs", "w")) {
        std::fputs("5", reset);
        std::fclose(reset);
    }
    const long long baseline = bytes_of("/proc/self/smaps_rollup", "Rss:");
    double spent_s = 0;
    Table table;
    for (;;) {
        uint32_t head[2];
        read_all(head, sizeof head);
        if (head[0] == 0) break;
        if (head[0] > kBatchRows || head[1] > bytes.size()) return 1;
        read_all(lengths.data(), head[0]);
        read_all(bytes.data(), head[1]);
        const double began_s = cpu_s();
        const char* at = bytes.data();
        for (uint32_t row = 0; row < head[0]; ++row) {
            count(table, std::string_view(at, lengths[row]));
            at += lengths[row];
        }
        spent_s += cpu_s() - began_s;
    }
    const long long after = bytes_of("/proc/self/smaps_rollup", "Rss:");
    const double began_s = cpu_s();
    sum += drain(table);
    spent_s += cpu_s() - began_s;
    const long long peak = bytes_of("/proc/self/status", "VmHWM:");
    std::printf("{\"cpu_s\": %.6f, \"after_bytes\": %lld, \"peak_bytes\": %lld, \"baseline_bytes\": %lld, "
                "\"after_free_bytes\": 0, \"sum\": %llu}\n",
                spent_s, after - baseline, peak - baseline, baseline, static_cast<unsigned long long>(sum));
    for (const auto& entry : table) {
        std::printf("%s %llu\n", entry.first.c_str(), static_cast<unsigned long long>(entry.second));
    }
}
