package executor

// Running returns how many messages are in hand.
func (e *Executor) Running() int {
	e.jobs.mu.Lock()
	defer e.jobs.mu.Unlock()
	return len(e.jobs.all)
}
