package bench

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// State is how many bytes of state the two events of a call carry in their headers.
type State struct {
	Request int `json:"request_bytes"`
	Outcome int `json:"outcome_bytes"`
}

// stateSample is of how many calls it is a mean.
const stateSample = 16

// state makes some calls and measures what the product has written of them.
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

// headers notes the size of the state in every event of a partition by its kind.
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
