package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

// AllowAllActor is the actor of the pushes of dispatchers that allow every call.
const AllowAllActor = "dispatcher://allow-all"

// MadeByAllowAll reports whether [Service.AllowAll] has pushed a version for AllowAllActor.
func MadeByAllowAll(v envelope.PolicyVersion) bool {
	return v.Reason == allowAllReason && strings.HasSuffix(v.By, "/"+AllowAllActor)
}

// AllowsAll reports whether the newest version of a history has a set that [Service.AllowAll] has pushed for
// AllowAllActor, also after an operator has put that in force again.
func AllowsAll(history []envelope.PolicyVersion) bool {
	return len(history) > 0 && slices.ContainsFunc(history, func(v envelope.PolicyVersion) bool {
		return v.Versions == history[0].Versions && MadeByAllowAll(v)
	})
}

// allowAllReason is the reason of the pushes of [Service.AllowAll]. With their sender, it tells them from those of
// operators.
const allowAllReason = "every call of all tools is allowed, until an operator pushes a policy"

// AllowAll puts in force a set that allows every call of the tools of this process, with the names of a role and a
// lane, unless an operator has pushed a set. It replaces only a set that AllowAll has pushed, as for other tools, also
// after an operator has put that in force again. by is the sender in the record.
func (s *Service) AllowAll(ctx context.Context, by call.Sender, role, lane string) error {
	d, err := policy.GenerateFor(role, lane, *s.Store.tools.Load())
	if err != nil {
		return err
	}
	for {
		newest, err := s.Store.Newest(ctx)
		if err != nil || newest.Versions == d.Versions() {
			return err
		}
		if own, err := s.allowedAll(ctx, by, newest); err != nil || newest.Revision != 0 && !own {
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

// allowedAll reports whether AllowAll has pushed the set of a version for by, in this version or an earlier one.
func (s *Service) allowedAll(ctx context.Context, by call.Sender, newest envelope.PolicyVersion) (bool, error) {
	all, err := s.Store.History(ctx)
	return slices.ContainsFunc(all, func(v envelope.PolicyVersion) bool {
		return v.Versions == newest.Versions && v.By == pusher(by) && v.Reason == allowAllReason
	}), err
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
