package checker

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// saved is a history in a file. The places of events, which are no part of their JSON form, stand
// beside them.
type saved struct {
	History
	Places []Place `json:"Places"`
}

// Place is where in the call log an event is.
type Place struct {
	Part subjects.Partition `json:"part"`
	Seq  uint64             `json:"seq"`
}

// PlaceOf returns the place of the last event of a log.
func PlaceOf(s call.State) Place { return Place{s.Partition, s.Seq} }

// Save writes the history, to be judged again.
func (h History) Save(w io.Writer) error {
	s := saved{History: h, Places: make([]Place, len(h.Log))}
	for i, e := range h.Log {
		s.Places[i] = PlaceOf(e.State)
	}
	return json.MarshalWrite(w, s)
}

// Load reads what Save wrote.
func Load(r io.Reader) (History, error) {
	var s saved
	if err := json.UnmarshalRead(r, &s); err != nil {
		return History{}, err
	}
	if len(s.Places) != len(s.Log) {
		return History{}, errors.New("the history has not one place for every event")
	}
	for i := range s.Log {
		s.Log[i].State.Partition, s.Log[i].State.Seq = s.Places[i].Part, s.Places[i].Seq
	}
	return s.History, nil
}
