package mcp

import "time"

// Age lets the connections have listed the definitions of their servers earlier.
func (a *Adapter) Age(by time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range a.pools {
		for _, l := range p.usable() {
			l.checking <- struct{}{}
			l.tried = l.tried.Add(-by)
			<-l.checking
		}
	}
}
