package mcp

// quota divides a limit among callers. A caller gets another unit only while it holds fewer units than are free: one
// caller alone can hold half of the limit, two callers a third each. So a new caller always finds free units.
type quota struct {
	most, taken int
	held        map[string]int
}

// take takes one unit for a caller. It returns false if the caller already holds its share.
func (q *quota) take(who string) bool {
	if q.held[who] >= q.most-q.taken {
		return false
	}
	q.add(who)
	return true
}

// add takes one unit for a caller, whatever its share.
func (q *quota) add(who string) {
	if q.held == nil {
		q.held = map[string]int{}
	}
	q.held[who]++
	q.taken++
}

// give returns one unit.
func (q *quota) give(who string) {
	q.taken--
	if q.held[who]--; q.held[who] == 0 {
		delete(q.held, who)
	}
}
