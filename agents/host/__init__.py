"""The machine an agent runs on: its clock, its neighbours, its way into the overlay, its memory."""
