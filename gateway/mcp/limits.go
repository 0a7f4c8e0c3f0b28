package mcp

// quota divides a limit among callers. A caller gets another unit only while it holds fewer units than are free: one
// caller alone can hold half of the limit, two callers a third each. So a new caller always finds free units.
type quota struct {
	most, taken int
	by          map[string]int
}

// take takes one unit for a caller. It returns false if the caller already holds its share.
func (r *quota) take(who string) bool {
	if r.by[who] >= r.most-r.taken {
		return false
	}
	if r.by == nil {
		r.by = map[string]int{}
	}
	r.by[who]++
	r.taken++
	return true
}

// give returns one unit.
func (r *quota) give(who string) {
	r.taken--
	if r.by[who]--; r.by[who] == 0 {
		delete(r.by, who)
	}
}
