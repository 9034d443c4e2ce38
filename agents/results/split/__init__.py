"""Results of one side while a job's root group is split (`availability = "partial"`), by provisional masters."""
