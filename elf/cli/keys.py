"""Commands that make keys and use them: keygen (secrets, tokens, keys to sign with), certgen (certificates), sign."""

from __future__ import annotations

import datetime
import os
import re
from pathlib import Path
from typing import Annotated

import typer

from elf.agents.errors import JobError
from elf.cli.mistakes import explained
from elf.cli.output import say

_PANEL = "Agents"
SECRET_BYTES = 32
CA_DAYS = 3_650
#: What browsers allow at most, too: long enough to be renewed with a yearly round of updates.
NODE_DAYS = 398


def keygen(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to create; must not exist.", show_default=False)
    ] = None,
    signing: Annotated[
        bool, typer.Option("--signing", help="A key to sign functions with: prints the public key that agents trust.")
    ] = False,
    creator: Annotated[
        bool, typer.Option("--creator", help="A key that your jobs belong to: nobody else may change or stop them.")
    ] = False,
) -> None:
    """Create a cluster secret, an API token or a key to sign with: 32 random bytes as hex, for its owner alone."""
    secret = os.urandom(SECRET_BYTES)
    if out is None:
        if not creator:
            raise JobError("name the file to create, which must not exist: --out FILE")
        from elf.client.creator_keys import creator_key_file

        out = creator_key_file().expanduser()
    try:
        if creator:
            out.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _create(out, secret.hex().encode() + b"\n")
    except FileExistsError:
        lost = "a lost key can sign no update" if signing or creator else "a lost key locks every agent out"
        raise JobError(f"{out} exists already and is not overwritten; {lost}") from None
    except OSError as error:
        raise JobError(f"{out} cannot be created: {error.strerror}") from None
    if not signing and not creator:
        say(f"wrote {out}; copy it to every agent over a safe channel")
        return
    from elf.agents.extensions.signed.signatures import public_key

    print(public_key(secret))
    if creator:
        say(f"wrote {out}, which stays with you: what you publish from now on belongs to it, and only it can change or")
        say("stop that. Operators purge such jobs with a key of theirs: [api] operators lists their public keys.")
        return
    say(f"wrote {out}, which stays with you; agents that are to run your functions have your public key, above, in")
    say('their settings: [functions] trusted = { CREATOR = "..." }')


def sign(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A job that brings functions along: TOML.")],
    key: Annotated[Path, typer.Option("--key", metavar="KEY", help="The key to sign with.")],
    name: Annotated[str | None, typer.Option(help="The name that it is to be published under.")] = None,
    creator: Annotated[str | None, typer.Option(help="The job's creator, if the file names none.")] = None,
) -> None:
    """Print a job file with its functions signed, so that whoever publishes it needs no key."""
    from elf.client.definitions import definition_of, signed_job
    from elf.client.names import default_creator

    with explained(file):
        text, filename = definition_of(file, None, name)
        print(signed_job(file, text, filename, key, name, creator or default_creator()), end="")


def certgen(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder of the CA; the first call creates both.")],
    address: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IP:PORT",
            help="Where others reach the agent (overlay.advertise); repeatable. Without port it needs the secret, too.",
            show_default=False,
        ),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=CA_DAYS, help="How long the certificate is valid.")] = NODE_DAYS,
    revoke: Annotated[
        Path | None,
        typer.Option(metavar="CERT", help="Put a certificate on the CA's list of revoked ones.", show_default=False),
    ] = None,
) -> None:
    """Create a certificate for one agent, and the cluster's CA if there is none yet; or revoke one."""
    from elf.overlay.errors import OverlayError

    if bool(address) == (revoke is not None):
        raise JobError("say whom the certificate is for, --address IP:PORT; or which one to revoke, --revoke CERT")
    try:
        if revoke is not None:
            _revoke(revoke, out / "revoked")
        else:
            _certify(out, address or [], days)
    except OverlayError as error:
        raise JobError(str(error)) from None
    except FileExistsError as error:
        raise JobError(f"{error.filename} exists already and is not overwritten; remove it to renew it") from None
    except OSError as error:
        raise JobError(f"{error.filename} cannot be read or created: {error.strerror}") from None


def _certify(out: Path, address: list[str], days: int) -> None:
    from elf.overlay.links.certificates import make_authority, make_certificate
    from elf.overlay.subject import split_place

    now = datetime.datetime.now(datetime.UTC)
    ca, ca_key = out / "ca.pem", out / "ca-key.pem"
    stem = re.sub(r"[^0-9A-Za-z.-]", "_", address[0].strip("["))
    cert, key = out / f"{stem}.pem", out / f"{stem}-key.pem"
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not ca.exists() and not ca_key.exists():
        made = make_authority(now, CA_DAYS)
    else:
        made = ca.read_bytes(), ca_key.read_bytes()
    pair = make_certificate(*made, address, now, days)
    for file, data in ((ca_key, made[1]), (ca, made[0])):
        if not file.exists():
            _create(file, data)
    for file, data in ((key, pair[1]), (cert, pair[0])):
        _create(file, data)
    say(f"wrote {cert} and {key}; copy them and {ca} to the agent and set overlay.tls_cert_file, tls_key_file and")
    say(f"tls_ca_file. Keep {ca_key} to yourself: whoever has it can make agents of this cluster.")
    if any(split_place(each)[1] is None for each in address):
        say("It is good for any port, so the agent needs the cluster's secret, too; --address IP:PORT makes one that")
        say("needs none, and lets nobody choose the agent's place.")


def _revoke(cert: Path, revoked: Path) -> None:
    from elf.overlay.links.certificates import serial_of
    from elf.overlay.links.notary import read_revoked

    serial = serial_of(str(cert))
    if revoked.exists() and serial in read_revoked(str(revoked)):
        say(f"{cert} is on {revoked} already")
        return
    day = datetime.datetime.now(datetime.UTC)
    with os.fdopen(os.open(revoked, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as opened:
        ended = not revoked.stat().st_size or revoked.read_bytes().endswith(b"\n")
        opened.write(f"{'' if ended else chr(10)}{serial:x}  # {cert.stem}, {day:%Y-%m-%d}\n")
    say(f"put {cert} on {revoked}; copy that to all agents, set overlay.tls_revoked_file, and `elf reload` them.")
    say("Then `elf retire` its agent, or windows wait for it.")


def _create(file: Path, data: bytes) -> None:
    """Create a file that only its owner can read."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(data)


def add_commands(app: typer.Typer) -> None:
    """Add this module's commands."""
    for command in (keygen, certgen):
        app.command(rich_help_panel=_PANEL)(command)
    app.command(rich_help_panel="Jobs")(sign)
