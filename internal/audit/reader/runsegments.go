package reader

import (
	"context"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit"
)

// RunSegments returns the segments of a run of a tenant, oldest first.
func RunSegments(ctx context.Context, from Source, tenant, run string) ([]envelope.RunSegment, error) {
	var segments audit.RunSegments
	for r, err := range Replay(ctx, from, Filter{Tenant: tenant, Run: run}) {
		if err != nil {
			return nil, err
		}
		segments.Add(&r)
	}
	return segments.All(), nil
}
