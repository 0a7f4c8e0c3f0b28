package reader

import "time"

// maxHeld is how many records are held at once to bring them into order.
const maxHeld = 1 << 16

// order brings records into the order of time, those of one time in the order in which they come. Records of
// different sources, as partitions of the call log and dispatchers, come mixed. One that comes more than most records
// behind a later one stays behind it.
type order struct {
	most  int
	came  int
	turns []turn // a heap, the oldest first
}

// turn is a record and when it came.
type turn struct {
	at   time.Time
	came int
	*Line
}

func (t turn) before(o turn) bool {
	if c := t.at.Compare(o.at); c != 0 {
		return c < 0
	}
	return t.came < o.came
}

// add takes a record, and returns the oldest one if more are held than there is room for.
func (o *order) add(l *Line) (oldest *Line) {
	o.came++
	o.turns = append(o.turns, turn{l.Timestamp, o.came, l})
	for i := len(o.turns) - 1; i > 0; {
		above := (i - 1) / 2
		if !o.turns[i].before(o.turns[above]) {
			break
		}
		o.turns[i], o.turns[above], i = o.turns[above], o.turns[i], above
	}
	if len(o.turns) <= o.most {
		return nil
	}
	return o.take()
}

// take returns the oldest record; nil where there is none.
func (o *order) take() *Line {
	last := len(o.turns) - 1
	if last < 0 {
		return nil
	}
	oldest := o.turns[0].Line
	o.turns[0], o.turns[last] = o.turns[last], turn{}
	o.turns = o.turns[:last]
	for i := 0; ; {
		next := 2*i + 1
		if next >= last {
			return oldest
		}
		if next+1 < last && o.turns[next+1].before(o.turns[next]) {
			next++
		}
		if !o.turns[next].before(o.turns[i]) {
			return oldest
		}
		o.turns[i], o.turns[next], i = o.turns[next], o.turns[i], next
	}
}
