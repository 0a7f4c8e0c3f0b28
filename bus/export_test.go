package bus

// Kept returns how many logs a follower that has ended keeps a state or a note of.
func (f *Follower) Kept() int { return len(f.logs) + len(f.closed) }
