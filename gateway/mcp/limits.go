package mcp

// quota is what there is for all callers together. One may have more of it as long as more is left than it has: half of
// it alone, a third beside another one. So there is always some for whoever comes next.
type quota struct {
	most, taken int
	by          map[string]int
}

// take takes one, unless whoever wants it has its share.
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

// give gives one back.
func (r *quota) give(who string) {
	r.taken--
	if r.by[who]--; r.by[who] == 0 {
		delete(r.by, who)
	}
}
