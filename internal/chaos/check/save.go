package check

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json"
)

// saved is a history in a file. The sequences of events, which are no part of their JSON form,
// stand beside them.
type saved struct {
	History
	Seqs []uint64 `json:"Seqs"`
}

// Save writes the history, to be judged again.
func (h History) Save(w io.Writer) error {
	s := saved{History: h, Seqs: make([]uint64, len(h.Log))}
	for i, e := range h.Log {
		s.Seqs[i] = e.State.Seq
	}
	return json.MarshalWrite(w, s)
}

// Load reads what Save wrote.
func Load(r io.Reader) (History, error) {
	var s saved
	if err := json.UnmarshalRead(r, &s); err != nil {
		return History{}, err
	}
	if len(s.Seqs) != len(s.Log) {
		return History{}, errors.New("the history has not one sequence for every event")
	}
	for i := range s.Log {
		s.Log[i].State.Seq = s.Seqs[i]
	}
	return s.History, nil
}
