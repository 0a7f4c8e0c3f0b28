package health

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// shortRecord is how far the audit record must reach back. A flood of calls may fill the stream in an hour.
const shortRecord = 24 * time.Hour

// recordAge returns the check of an audit record that is up to date. It is a warning if records of the last day are
// gone: the stream was full, or it was deleted.
func recordAge(ctx context.Context, js jetstream.JetStream, now time.Time) envelope.Check {
	stream, err := js.Stream(ctx, subjects.AuditStream)
	if err != nil {
		return envelope.Well("audit record", "up to date") // the check of the stream reports it
	}
	info := stream.CachedInfo()
	oldest := now.Sub(info.State.FirstTime)
	switch made := now.Sub(info.Created); {
	case refuses(info):
		return refusing(ctx, stream)
	case drops(info) && oldest < shortRecord:
		most, _ := mostOf(ctx, stream)
		return envelope.Doubtful("audit record", fmt.Sprintf("it reaches back %s only: AUDIT is full, and drops its oldest "+
			"records; most of it is about %s", oldest.Round(time.Second), most), "see who calls with "+
			"`toolbus audit tail`, and raise --audit-bytes; with --audit-full refuse, calls are refused instead")
	case made < shortRecord && calledBefore(ctx, js, info.Created):
		return envelope.Doubtful("audit record", fmt.Sprintf("it reaches back %s only: AUDIT was deleted and created again, "+
			"and there were calls before", made.Round(time.Second)),
			"restore the record from a backup, and see who may delete streams")
	}
	return envelope.Well("audit record", "up to date")
}

// drops reports whether a stream has dropped messages because it is full.
func drops(s *jetstream.StreamInfo) bool {
	full := s.Config.MaxBytes > 0 && s.State.Bytes*100 > uint64(s.Config.MaxBytes)*85
	return full && s.Config.Discard == jetstream.DiscardOld && s.State.FirstSeq > 1
}

// refuses reports whether a stream drops no messages and is so full that tenants have shares: dispatchers refuse calls
// of those that keep more, see writer.Shares.
func refuses(s *jetstream.StreamInfo) bool {
	halfFull := s.Config.MaxBytes > 0 && s.State.Bytes*2 >= uint64(s.Config.MaxBytes)
	return halfFull && s.Config.Discard == jetstream.DiscardNew
}

// refusing returns the check of an audit record that refuses. A sole tenant is over its share for certain.
func refusing(ctx context.Context, audit jetstream.Stream) envelope.Check {
	const fix = "raise --audit-bytes of the dispatchers, or wait until records expire; with --audit-full forget, the " +
		"oldest records go instead"
	most, tenants := mostOf(ctx, audit)
	if tenants == 1 {
		return envelope.Failed("audit record", "AUDIT is half full, and its records may not go: calls of "+most+
			" are refused with R-CAP-AUDIT", fix)
	}
	return envelope.Doubtful("audit record", "AUDIT is half full, and its records may not go: calls of a tenant with "+
		"more than a quarter of it are refused with R-CAP-AUDIT; most of it is about "+most, fix)
}

// mostOf names the tenant that has most segments in AUDIT, and returns the number of tenants.
func mostOf(ctx context.Context, audit jetstream.Stream) (of string, tenants int) {
	most, of := uint64(0), "no tenant"
	info, err := audit.Info(ctx, jetstream.WithSubjectFilter(subjects.AuditAll))
	if err != nil {
		return of, 0
	}
	segments := map[string]uint64{} // by tenant
	for subject, n := range info.State.Subjects {
		tenant, err := subjects.ParseToken(subject[strings.LastIndexByte(subject, '.')+1:])
		if err != nil {
			continue
		}
		if segments[tenant] += n; segments[tenant] > most {
			most, of = segments[tenant], "the tenant "+tenant
		}
	}
	return of, len(segments)
}

// calledBefore reports whether the call log has an event from before a time.
func calledBefore(ctx context.Context, js jetstream.JetStream, before time.Time) bool {
	n, err := bus.Partitions(ctx, js)
	if err != nil {
		return false // the check of the call log reports it
	}
	for p := range subjects.Partition(n) {
		log, err := js.Stream(ctx, p.Stream())
		if err == nil && log.CachedInfo().State.Msgs > 0 && log.CachedInfo().State.FirstTime.Before(before) {
			return true
		}
	}
	return false
}
