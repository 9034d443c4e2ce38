"""Python that operators install for agents: functions and applications, and functions that come signed with a job."""
