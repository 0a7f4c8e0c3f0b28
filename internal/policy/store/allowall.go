package store

import (
	"context"
	"fmt"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// allowAllReason is the reason of the pushes of [Service.AllowAll]. With their sender, it tells them from those of
// operators.
const allowAllReason = "every call of all tools is allowed, until an operator pushes a policy"

// AllowAll puts in force a set that allows every call of the tools of this process, with the names of a role and a
// lane, unless an operator has pushed a set. It replaces only what AllowAll has pushed, as for other tools. by is the
// sender in the record.
func (s *Service) AllowAll(ctx context.Context, by call.Sender, role, lane string) error {
	d, err := policy.GenerateFor(role, lane, s.Store.tools)
	if err != nil {
		return err
	}
	for {
		newest, err := s.Store.Newest(ctx)
		own := newest.By == pusher(by) && newest.Reason == allowAllReason
		if err != nil || newest.Versions == d.Versions() || newest.Revision != 0 && !own {
			return err
		}
		q := envelope.PolicyPushRequest{Versions: d.Versions(), Expected: newest.Revision, Reason: allowAllReason}
		refusal, err := s.pushDocuments(ctx, by, d, q)
		if err != nil || refusal == nil {
			return err
		}
		if refusal.Code != envelope.CodePolicyVersion { // otherwise another process was faster: look at what it pushed
			return fmt.Errorf("policy for all tools: %s: %s", refusal, refusal.Cause)
		}
	}
}

func (s *Service) pushDocuments(
	ctx context.Context, by call.Sender, d policy.Documents, q envelope.PolicyPushRequest,
) (refusal *envelope.Error, err error) {
	for _, document := range d.All() {
		if err := s.Store.put(ctx, document); err != nil {
			return nil, err
		}
	}
	_, refusal = s.Push(ctx, by, q)
	return refusal, nil
}

// pusher returns the name of a sender in the history of the policy.
func pusher(by call.Sender) string { return by.Tenant + "/" + by.Actor }
