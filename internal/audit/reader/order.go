package reader

import "time"

// maxHeld is the number of records that are kept in memory to sort them.
const maxHeld = 1 << 16

// order sorts records by time, and records of the same time by arrival. The records of partitions and dispatchers are
// interleaved in the streams. A record that arrives more than most records after a later one is not sorted before it.
type order struct {
	most  int
	came  int
	turns []turn // heap with the oldest record first
}

// turn is a record with its time and its arrival number.
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

// add adds a record. If more than most records are then held, it removes and returns the oldest one, otherwise nil.
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

// take removes and returns the oldest record. It returns nil if no record is held.
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
