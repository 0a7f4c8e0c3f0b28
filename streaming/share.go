package streaming

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

const (
	shareAbove = 75  // fill level, in per cent, from which on Share makes room
	minShare   = 256 // number of parts up to which nothing is cut: two of the largest payloads
	maxOfOne   = 4   // an actor with at least 1/maxOfOne of the parts of its tenant is cut alone
)

// LeastPart is the number of bytes that each part counts at least, however small it is, because the server keeps each
// subject in memory.
const LeastPart = 32 << 10

// Cut describes the payloads that [Share] has deleted: the older half of the parts of a tenant, or of one of its
// actors. The names are subject tokens.
type Cut struct {
	Tenant, Actor string // an empty Actor means all actors of the tenant
	Left          uint64 // number of parts that remain
}

// Share makes room in a payload stream that is at least 75 per cent full: it deletes the older half of the parts of the
// tenant, or actor, with the most parts. So one caller cannot fill the stream for all others. A server limits the size
// of a stream, but not of a subject prefix in it. Share returns the size limit of the stream in bytes, 0 if it has
// none, and nil if it deleted nothing.
func Share(ctx context.Context, js jetstream.JetStream, stream string) (size int64, _ *Cut, _ error) {
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return 0, nil, fmt.Errorf("payload store: %w", err)
	}
	info := s.CachedInfo()
	used := max(info.State.Bytes, info.State.Msgs*LeastPart)
	if size = max(info.Config.MaxBytes, 0); size == 0 || used/shareAbove < uint64(size)/100 {
		return size, nil, nil
	}
	cut, err := share(ctx, s)
	return size, cut, err
}

func share(ctx context.Context, s jetstream.Stream) (*Cut, error) {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(subjects.PayloadsAll))
	if err != nil {
		return nil, fmt.Errorf("payload store: %w", err)
	}
	cut := greediest(info.State.Subjects)
	if cut == nil {
		return nil, nil
	}
	filter := subjects.PayloadsOf(cut.Tenant, cut.Actor)
	if err := s.Purge(ctx, jetstream.WithPurgeSubject(filter), jetstream.WithPurgeKeep(cut.Left)); err != nil {
		return nil, fmt.Errorf("payload store: %w", err)
	}
	return cut, nil
}

// greediest returns the cut to make: in the tenant with the most parts, the actor with the most. If no actor has a
// quarter of the parts of its tenant, as when a flood uses many actors, it returns the whole tenant. It returns nil if
// the cut would have fewer than minShare parts.
func greediest(parts map[string]uint64) *Cut {
	tenants, actors := map[string]uint64{}, map[[2]string]uint64{}
	for subject, n := range parts {
		t := strings.Split(subject, ".")
		if len(t) < 5 {
			continue // nobody of Toolbus stored it
		}
		tenants[t[2]] += n
		actors[[2]string{t[2], t[3]}] += n
	}
	cut := Cut{}
	for tenant, n := range tenants {
		if n > cut.Left || n == cut.Left && tenant < cut.Tenant {
			cut = Cut{Tenant: tenant, Left: n}
		}
	}
	all, most := cut.Left, uint64(0)
	for of, n := range actors {
		if of[0] == cut.Tenant && n >= all/maxOfOne && (n > most || n == most && of[1] < cut.Actor) {
			cut.Actor, cut.Left, most = of[1], n, n
		}
	}
	if cut.Left < minShare {
		return nil
	}
	cut.Left /= 2
	return &cut
}
