package audit

import (
	"errors"
	"iter"
	"slices"
	"testing"
	"time"
)

// coming yields records with these times, in seconds, each named by the order in which it comes; then err.
func coming(err error, times ...int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for i, at := range times {
			if !yield(Record{Timestamp: time.Unix(at, 0), Attempt: i}, nil) {
				return
			}
		}
		if err != nil {
			yield(Record{}, err)
		}
	}
}

func TestInTimeOrder(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		times []int64
		most  int
		err   error
		want  []int
	}{
		"nothing":             {nil, 10, nil, nil},
		"mixed":               {[]int64{3, 1, 2, 1, 0}, 10, nil, []int{4, 1, 3, 2, 0}},
		"same time":           {[]int64{1, 1, 1}, 10, nil, []int{0, 1, 2}},
		"more than are held":  {[]int64{2, 1, 4, 3, 6, 5}, 2, nil, []int{1, 0, 3, 2, 5, 4}},
		"further than it can": {[]int64{2, 3, 4, 1}, 2, nil, []int{0, 3, 1, 2}},
		"an error":            {[]int64{2, 1}, 10, broken, []int{1, 0, -1}},
	} {
		var got []int
		for r, err := range inTimeOrder(coming(c.err, c.times...), c.most) {
			if err != nil {
				r.Attempt = -1
			}
			got = append(got, r.Attempt)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
	for range InTimeOrder(coming(broken, 2, 1)) {
		break // whoever has enough is asked for nothing more
	}
}
