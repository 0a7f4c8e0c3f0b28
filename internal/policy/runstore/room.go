package runstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/format"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// maxActive is the largest number of runs that the agents of a root family have started and that have not ended.
// Dispatchers that start runs at the same moment do not see each other's, and may exceed it.
const maxActive = 1000

// maxRecord is the largest size, in bytes, of the record of a run that somebody starts.
const maxRecord = 4 << 10

// Shares of the bucket, in per cent of its max_bytes, above which no run is started. The rest is for implicit runs, and
// for changes, which make records longer.
const (
	agentShare    = 75
	operatorShare = 85
)

// crowdedShare is the share above which a closed run of an agent is kept for crowdedLife only, and counts for
// maxActive until then. So nobody fills the bucket by starting and closing runs.
const (
	crowdedShare = 50
	crowdedLife  = time.Hour
)

// checkSize refuses a run whose record would be longer than maxRecord when it is closed.
func checkSize(r record) *envelope.Error {
	r.State, r.End, r.Changed = string(policy.RunClosed), r.Start, true
	data, err := format.Marshal(format.Entry, r)
	if err != nil {
		return malformed(err.Error())
	}
	if len(data) <= maxRecord {
		return nil
	}
	member := "/actors"
	if size(r.Lanes) > size(r.Actors) {
		member = "/lanes"
	}
	message := fmt.Sprintf("the record of the run would have %d bytes, of %d that it may", len(data), maxRecord)
	return envelope.NewError(envelope.CodeLimit, message).
		WithViolations(ijson.NewViolation(member, "maxBytes", message)).
		WithFix("name fewer actors or lanes: sub-actors of a named actor need no name, and no lane means all of the role")
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
	places     int   // runs that count for maxActive
}

// over reports whether more than a share of the bucket is in use, in per cent.
func (o occupancy) over(share int64) bool { return o.most > 0 && o.used > o.most/100*share }

// occupancy asks the leader of the bucket how much of it is in use, and how many subjects match a filter, if not "".
func (s *Store) occupancy(ctx context.Context, filter string) (o occupancy, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	// the server counts the subjects, but names only those after the offset
	q := fmt.Sprintf(`{"subjects_filter":%q,"offset":%d}`, filter, maxActive)
	msg, err := s.js.Conn().RequestWithContext(ctx, "$JS.API.STREAM.INFO."+subjects.RunsStream, []byte(q))
	if err != nil {
		return o, err
	}
	var info struct {
		Total  int                 `json:"total"`
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
	return occupancy{info.State.Bytes, info.Config.MaxBytes, info.Total}, nil
}

// admit returns an error if the sender may not start another run now.
func (s *Store) admit(ctx context.Context, by Sender) error {
	share, filter := int64(operatorShare), ""
	if !by.operates() {
		share, filter = agentShare, subjects.RunPlaces(by.Tenant, by.Token.Root())
	}
	now, err := s.occupancy(ctx, filter)
	switch {
	case err != nil:
		return err
	case now.places >= maxActive:
		return replica.Refuse(full(fmt.Sprintf("%d runs of this credential and of those narrowed from it have not ended, "+
			"of %d that may", now.places, maxActive)))
	case now.over(share):
		return replica.Refuse(full(fmt.Sprintf("the bucket of the runs has %d bytes in use, of %d that starts may use",
			now.used, now.most/100*share)))
	}
	return nil
}

// kept returns the run with the time until which the record of a closed run of an agent is kept.
func (s *Store) kept(ctx context.Context, r envelope.Run) envelope.Run {
	if r.Expires.IsZero() || r.State != string(policy.RunClosed) {
		return r
	}
	r.Expires = r.End.Add(closedLife)
	if now, err := s.occupancy(ctx, ""); err == nil && now.over(crowdedShare) {
		r.Expires = r.End.Add(crowdedLife)
	}
	return r
}

// take counts the run of an agent for maxActive, until it expires.
func (s *Store) take(ctx context.Context, r record) error {
	if r.Starter == nil {
		return nil
	}
	return s.place(ctx, r, s.life(r))
}

// leave ends take for a run that is closed. If that fails, the run counts until it would have expired.
func (s *Store) leave(ctx context.Context, r record) {
	switch {
	case r.Starter == nil || r.State != string(policy.RunClosed):
	case r.Expires.Sub(r.End) == crowdedLife:
		_ = s.place(ctx, r, crowdedLife)
	default:
		_ = s.place(ctx, r, time.Second) // the shortest life of a message
	}
}

// place stores the message that counts a run, which the server deletes after its life.
func (s *Store) place(ctx context.Context, r record, life time.Duration) error {
	p := r.token()
	msg := &nats.Msg{Subject: subjects.RunPlace(r.Tenant, p.Root(), r.ID), Header: nats.Header{}}
	msg.Header.Set(jetstream.MsgTTLHeader, strconv.Itoa(int(life/time.Second)))
	_, err := s.js.PublishMsg(ctx, msg)
	return err
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
