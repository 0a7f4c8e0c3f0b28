package dispatcher

// Lines returns how many keys the dispatcher keeps something of.
func (d *Dispatcher) Lines() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.keyQueues)
}

// Watching returns how many open attempts the dispatcher guards.
func (d *Dispatcher) Watching() (open int) {
	for _, g := range d.deadlines {
		open += g.size()
	}
	return open
}

func (g *deadlineWatch) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.byKey)
}
