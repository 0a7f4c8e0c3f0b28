package callout

import (
	"cmp"
	"slices"
)

// FamilyPending is the number of bytes that may wait in one server for all connections of a root family together. Bytes
// count if they waited for a connection in two lists in a row: a client that reads has taken them by then.
const FamilyPending = 32 << 20

// logUnread is how many closed connections are logged a second: one a minute.
const logUnread = 1.0 / 60

// unread returns the connections of a server to close, so that at most FamilyPending bytes wait for the rest of each
// family: those for which most bytes wait. The server drops these bytes, so they are added to the debt of the family.
func (c *Connections) unread(server string, all []connection) (found []place) {
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(all, func(a, b connection) int { // so that all dispatchers choose the same
		return cmp.Or(cmp.Compare(a.Pending, b.Pending), cmp.Compare(a.CID, b.CID))
	})
	kept := map[string]int64{}
	for _, l := range all {
		at := place{server, l.CID}
		o := c.open[at]
		if o == nil || o.dispatcher {
			continue
		}
		waits := min(o.pending, l.Pending)
		o.pending = l.Pending
		if kept[o.root]+waits <= FamilyPending {
			kept[o.root] += waits
			continue
		}
		found = append(found, at)
		c.debt(o).owed.bytes += float64(l.Pending)
		if c.slow.Take(c.now()) {
			c.log.Warn("connections are closed: their clients do not read what they asked for", "family", o.root)
		}
	}
	return found
}
