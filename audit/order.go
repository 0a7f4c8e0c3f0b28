package audit

import (
	"cmp"
	"container/heap"
	"iter"
)

// maxHeld is how many records are held at once to bring them into order.
const maxHeld = 1 << 16

// InTimeOrder yields records by their time, those of one time in the order in which they come. Records of
// different sources, as partitions of the call log and dispatchers, come mixed. It holds 65,536 records at the
// most: one that comes further behind a later one than that stays behind it. After an error nothing comes.
func InTimeOrder(records iter.Seq2[Record, error]) iter.Seq2[Record, error] {
	return inTimeOrder(records, maxHeld)
}

func inTimeOrder(records iter.Seq2[Record, error], most int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		var h held
		came := 0
		for r, err := range records {
			if err != nil {
				_ = h.empty(yield, 0) && yield(Record{}, err)
				return
			}
			came++
			heap.Push(&h, turn{r, came})
			if !h.empty(yield, most) {
				return
			}
		}
		h.empty(yield, 0)
	}
}

// turn is a record and when it came.
type turn struct {
	Record
	came int
}

// held is a heap of records, the oldest first.
type held []turn

// The methods of heap.Interface.

func (h held) Len() int { return len(h) }
func (h held) Less(i, j int) bool {
	return cmp.Or(h[i].Timestamp.Compare(h[j].Timestamp), cmp.Compare(h[i].came, h[j].came)) < 0
}
func (h held) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *held) Push(x any)   { *h = append(*h, x.(turn)) }
func (h *held) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// empty yields the oldest records until no more than most are left, and reports whether more are wanted.
func (h *held) empty(yield func(Record, error) bool, most int) bool {
	for len(*h) > most {
		if !yield(heap.Pop(h).(turn).Record, nil) {
			return false
		}
	}
	return true
}
