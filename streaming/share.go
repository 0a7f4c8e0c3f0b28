package streaming

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// When a payload store is shared out, and how many parts nobody is denied.
const (
	shareAbove = 75  // per cent of the store's bytes
	minShare   = 256 // parts: two of the largest payloads
	maxOfOne   = 4   // an actor with one of so many parts of its tenant is cut alone
)

// LeastPart is what a part takes of a store in bytes, however small it is: the server keeps each subject in memory.
const LeastPart = 32 << 10

// Cut is what was dropped to make room: the older half of what a tenant, or an actor of it, had stored. The names are
// tokens of subjects.
type Cut struct {
	Tenant, Actor string // no actor is the whole tenant
	Left          uint64 // parts
}

// Share makes room in a payload store that is nearly full, so that whoever has filled it keeps nobody else out. The
// server bounds a stream, but not what is below a prefix in it. It returns the size of the store in bytes, 0 if it
// has no bound, and nil where there was nothing to do.
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

// greediest says what is to be cut: of the tenant with the most parts the actor with the most, or, where none stands
// out, as when many actors share the work of one flood, the whole tenant.
func greediest(parts map[string]uint64) *Cut {
	tenants, actors := map[string]uint64{}, map[[2]string]uint64{}
	for subject, n := range parts {
		t := strings.Split(subject, ".")
		if len(t) < 5 {
			continue // stored by a build before owners
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
