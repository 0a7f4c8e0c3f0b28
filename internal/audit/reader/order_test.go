package reader

import (
	"slices"
	"testing"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/audit"
)

func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		times []int64 // in seconds; a record is named by its arrival number
		most  int
		want  []int
	}{
		"nothing":             {nil, 10, nil},
		"mixed":               {[]int64{3, 1, 2, 1, 0}, 10, []int{4, 1, 3, 2, 0}},
		"same time":           {[]int64{1, 1, 1}, 10, []int{0, 1, 2}},
		"more than are held":  {[]int64{2, 1, 4, 3, 6, 5}, 2, []int{1, 0, 3, 2, 5, 4}},
		"further than it can": {[]int64{2, 3, 4, 1}, 2, []int{0, 3, 1, 2}},
	} {
		var got []int
		o := order{most: c.most}
		for i, at := range c.times {
			if l := o.add(&Line{Record: audit.Record{Timestamp: time.Unix(at, 0), Attempt: i}}); l != nil {
				got = append(got, l.Attempt)
			}
		}
		for l := o.take(); l != nil; l = o.take() {
			got = append(got, l.Attempt)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
