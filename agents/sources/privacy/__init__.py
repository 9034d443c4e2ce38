"""What of an event is blurred or left out before anything is made of it."""
