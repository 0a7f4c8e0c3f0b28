package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// State is the size in bytes of the state in the headers of a call's two events.
type State struct {
	Request int `json:"request_bytes"`
	Outcome int `json:"outcome_bytes"`
}

// stateSample is the number of calls whose events are measured.
const stateSample = 16

// state makes some calls and returns the mean size of the state in their events.
func (p *product) state(ctx context.Context) (State, error) {
	for n := range stateSample {
		if err := p.call(ctx, fmt.Sprintf("state-%016d", n), toolID(0), input(minSize)); err != nil {
			return State{}, err
		}
	}
	parts, err := bus.Partitions(ctx, p.js)
	if err != nil {
		return State{}, err
	}
	written := map[string][]int{}
	for part := range subjects.Partition(parts) {
		if err := p.headers(ctx, part, written); err != nil {
			return State{}, fmt.Errorf("state of the events: %w", err)
		}
	}
	s := State{mean(written[subjects.KindRequest]), mean(written[subjects.KindOutcome])}
	if s.Request == 0 || s.Outcome == 0 {
		return s, errors.New("no events to measure")
	}
	return s, nil
}

// headers adds the sizes of the state in all events of a partition to written, by kind of event.
func (p *product) headers(ctx context.Context, part subjects.Partition, written map[string][]int) error {
	stream, err := p.js.Stream(ctx, part.Stream())
	if err != nil {
		return err
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		msg, err := stream.GetMsg(ctx, seq)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		e, err := subjects.ParseEvent(msg.Subject)
		if err != nil {
			return err
		}
		written[e.Kind] = append(written[e.Kind], len(msg.Header.Get(subjects.HeaderEvent)))
	}
	return nil
}

func mean(v []int) int {
	sum := 0
	for _, n := range v {
		sum += n
	}
	return sum / max(1, len(v))
}
