package dispatcher

// Lines returns how many keys the dispatcher keeps something of.
func (d *Dispatcher) Lines() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.lines)
}
