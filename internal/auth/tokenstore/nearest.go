package tokenstore

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
)

// maxNearest is the largest number of names that an answer suggests.
const maxNearest = 3

// end revokes a family. It counts the family if that is in the list of issued credentials.
func (s *Store) end(ctx context.Context, family, by string) (a envelope.RevokeResponse, err error) {
	already := s.checker.Revoked.Family(family)
	if err := s.Revoke(ctx, family, by); err != nil {
		return a, err
	}
	_, ok, err := s.listed(ctx, family)
	if ok {
		count(&a, already)
	}
	return a, err
}

// count counts a listed family that a revocation covers.
func count(a *envelope.RevokeResponse, already bool) {
	if a.Families++; already {
		a.Already++
	}
}

// nearest returns the names of listed credentials that are most like the one that q names, see
// [envelope.RevokeResponse].
func (s *Store) nearest(ctx context.Context, q envelope.RevokeRequest) (names []string, err error) {
	issued, err := s.Issued(ctx)
	if err != nil {
		return nil, err
	}
	var known, elsewhere []string
	for _, c := range issued {
		switch {
		case q.Family != "":
			known = append(known, c.Family)
		case c.Tenant == q.Tenant:
			known = append(known, c.Actor)
			if strings.HasSuffix(c.Actor, "://"+q.Actor) && !slices.Contains(names, c.Actor) && len(names) < maxNearest {
				names = append(names, c.Actor)
			}
		case c.Actor == q.Actor || auth.IsSub(c.Actor, q.Actor):
			elsewhere = append(elsewhere, fmt.Sprintf("%s in tenant %s", c.Actor, c.Tenant))
		}
	}
	known = slices.DeleteFunc(known, func(n string) bool { return slices.Contains(names, n) })
	for word := q.Family + q.Actor; len(names) < maxNearest; {
		name, ok := envelope.Nearest(word, known)
		if !ok {
			break
		}
		names = append(names, name)
		known = slices.DeleteFunc(known, func(n string) bool { return n == name })
	}
	slices.Sort(elsewhere)
	elsewhere = slices.Compact(elsewhere)
	return append(names, elsewhere[:min(len(elsewhere), maxNearest-len(names))]...), nil
}
