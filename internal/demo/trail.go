package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/seed-018f16cc/toolbus/admin"
)

// trail returns the audit records of the call whose executor was killed, up to its end.
func (s *stage) trail(ctx context.Context) ([]admin.AuditRecord, error) {
	if s.memory.moved == "" {
		return nil, nil // its scene has failed, and the report shows that
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var records []admin.AuditRecord
	for r, err := range s.operator.AuditRecords(ctx, admin.AuditFilter{Call: s.memory.moved, Follow: true}) {
		if err != nil {
			return nil, fmt.Errorf("audit record: %w", err)
		}
		records = append(records, r)
		if r.Status != "" {
			break
		}
	}
	return records, nil
}
