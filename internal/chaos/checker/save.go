package checker

import (
	"errors"
	"io"

	"github.com/go-json-experiment/json"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// saved is the file format of a history. The JSON form of an event lacks its position, so the positions are stored
// separately.
type saved struct {
	History
	Places []call.Position `json:"Places"`
}

// Save writes the history, so that Load can read it.
func (h History) Save(w io.Writer) error {
	s := saved{History: h, Places: make([]call.Position, len(h.Log))}
	for i, e := range h.Log {
		s.Places[i] = e.State.Position
	}
	return json.MarshalWrite(w, s)
}

// Load reads a history that Save wrote.
func Load(r io.Reader) (History, error) {
	var s saved
	if err := json.UnmarshalRead(r, &s); err != nil {
		return History{}, err
	}
	if len(s.Places) != len(s.Log) {
		return History{}, errors.New("the history has not one place for every event")
	}
	for i := range s.Log {
		s.Log[i].State.Position = s.Places[i]
	}
	return s.History, nil
}
