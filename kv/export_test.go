package kv

// Kept returns how many logs a follower that has ended keeps a state or a note of.
func (f *Follower) Kept() int { return len(f.logs) + len(f.closed) }

// Open returns how many logs a follower that has ended takes for open.
func (f *Follower) Open() int { return len(f.logs) }
