package runstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// maxRecord is the largest size, in bytes, of the record of a run that somebody starts.
const maxRecord = 4 << 10

// Shares of the bucket, in per cent of its max_bytes, above which no run is started. The rest is for implicit runs, and
// for changes, which make records longer.
const (
	agentShare    = 75
	operatorShare = 85
)

// checkSize refuses a run whose record would be longer than maxRecord when it is closed.
func checkSize(r record) error {
	r.State, r.End, r.Changed = string(policy.RunClosed), r.Start, true
	data, err := format.Marshal(format.Entry, r)
	if err != nil || len(data) <= maxRecord {
		return err
	}
	member := "/actors"
	if size(r.Lanes) > size(r.Actors) {
		member = "/lanes"
	}
	message := fmt.Sprintf("the record of the run would have %d bytes, of %d that it may", len(data), maxRecord)
	return replica.Refuse(envelope.NewError(envelope.CodeLimit, message).
		WithViolations(ijson.NewViolation(member, "maxBytes", message)).
		WithFix("name fewer actors or lanes: sub-actors of a named actor need no name, and no lane means those of the role"))
}

func size(names []string) (n int) {
	for _, name := range names {
		n += len(name)
	}
	return n
}

// occupancy is how much of the bucket is in use.
type occupancy struct {
	used, most int64 // bytes; most is not positive without a limit
}

// over reports whether more than a share of the bucket is in use, in per cent.
func (o occupancy) over(share int64) bool { return o.most > 0 && o.used > o.most/100*share }

// occupancy asks the leader of the bucket how much of it is in use.
func (s *Store) occupancy(ctx context.Context) (o occupancy, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	msg, err := s.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.INFO."+subjects.RunsStream, nil)
	if err != nil {
		return o, err
	}
	var info struct {
		Error  *jetstream.APIError `json:"error"`
		Config struct {
			MaxBytes int64 `json:"max_bytes"`
		} `json:"config"`
		State struct {
			Bytes int64 `json:"bytes"`
		} `json:"state"`
	}
	if err := json.Unmarshal(msg.Data, &info); err != nil {
		return o, err
	}
	if info.Error != nil {
		return o, info.Error
	}
	return occupancy{info.State.Bytes, info.Config.MaxBytes}, nil
}

// admit returns an error if the sender may not start another run now.
func (s *Store) admit(ctx context.Context, by Sender) error {
	now, err := s.occupancy(ctx)
	if err != nil {
		return err
	}
	share := int64(agentShare)
	if by.operates() {
		share = operatorShare
	}
	if now.over(share) {
		return replica.Refuse(full(fmt.Sprintf("the bucket of the runs has %d bytes in use, of %d that starts may use",
			now.used, now.most/100*share)))
	}
	return nil
}

// full returns the answer where there is no room for a run.
func full(message string) *envelope.Error {
	return envelope.NewError(envelope.CodeStoreFull, message).WithRetryAfter(time.Minute).
		WithFix("close runs that have ended: `toolbus runs list`; the operator may enlarge max_bytes of " +
			subjects.RunsStream)
}

// remove deletes an entry that closing would make longer than the bucket has room for. Calls of a run that does not
// exist are denied, too.
func (s *Store) remove(ctx context.Context, n name, revision uint64) error {
	defer s.cache.drop(n)
	return s.runs.Delete(ctx, revision)
}

// unstored returns the implicit run r as if it was stored. So its calls need no room in the bucket. Nobody has stopped
// it, for it would be stored then.
func (s *Store) unstored(r envelope.Run, at time.Time) *policy.Run {
	v := versionOf(replica.Entry[record]{Value: &record{Run: r}, At: at})
	s.cache.put(name{r.Tenant, r.ID}, v)
	return v.facts
}

// Start returns the implicit run r, which it creates if it does not exist.
func (s *Store) Start(ctx context.Context, r envelope.Run) (*policy.Run, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	at := time.Now()
	err := s.Create(ctx, r)
	switch {
	case bus.IsStorageFull(err):
		return s.unstored(r, at), nil
	case err != nil && !errors.Is(err, ErrExists):
		return nil, err
	}
	return s.Find(ctx, r.Tenant, r.ID, time.Time{})
}
