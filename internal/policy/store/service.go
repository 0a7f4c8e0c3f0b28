package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/policy"
	"github.com/seed-018f16cc/toolbus/internal/policy/replica"
	"github.com/seed-018f16cc/toolbus/internal/tool"
)

// Service handles the requests of operators about the policy. The caller has authenticated each request and checked
// that its sender is an operator. Its methods are safe for concurrent use.
type Service struct {
	Store *Store
	// Record writes to the audit record that by pushes a set, before it is in force.
	Record func(ctx context.Context, by call.Sender, q envelope.PolicyPushRequest) error
}

// Part stores a part of a document.
func (s *Service) Part(ctx context.Context, q envelope.PolicyPartRequest) (struct{}, *envelope.Error) {
	switch {
	case !policy.IsDigest(q.SHA256):
		return struct{}{}, malformed("sha256 is not a SHA-256 in hexadecimal")
	case q.Part < 0 || q.Part > policy.MaxSet/envelope.PolicyPartBytes:
		return struct{}{}, malformed(fmt.Sprintf("part %d: a document has at most %d bytes", q.Part, policy.MaxSet))
	case len(q.Body) > envelope.PolicyPartBytes:
		return struct{}{}, malformed(fmt.Sprintf("the part has %d bytes, at most %d are allowed", len(q.Body),
			envelope.PolicyPartBytes))
	}
	if err := s.Store.PutPart(ctx, q.SHA256, q.Part, q.Body); err != nil {
		return struct{}{}, unreached(err)
	}
	return struct{}{}, nil
}

// Push puts the set of stored documents in force, in this process before it returns. It refuses an invalid set as a
// whole.
func (s *Service) Push(ctx context.Context, by call.Sender, q envelope.PolicyPushRequest) (
	a envelope.PolicyPushResponse, _ *envelope.Error) {
	if len(q.Reason) > envelope.MaxReason {
		return a, malformed(fmt.Sprintf("the reason has %d bytes, at most %d are allowed", len(q.Reason),
			envelope.MaxReason))
	}
	for _, digest := range q.Versions.All() {
		if !policy.IsDigest(digest) {
			return a, malformed("versions names three SHA-256 in hexadecimal")
		}
	}
	if err := s.Store.Check(ctx, q); err != nil {
		return a, refusal(err)
	}
	id := call.CredentialFromContext(ctx).Request
	revision, err := s.Store.Push(ctx, q, pusher(by), id, func() error {
		if err := s.Record(ctx, by, q); err != nil {
			return replica.Refuse(replica.Unrecorded(err))
		}
		return nil
	})
	if err != nil {
		return a, refusal(err)
	}
	s.decideBy(ctx)
	_ = s.Store.RemoveUnused(ctx) // the next push removes what stays
	return envelope.PolicyPushResponse{Revision: revision}, nil
}

// decideBy lets this process decide by the newest set from now on. If the bucket does not answer, Run does so later.
func (s *Service) decideBy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	_ = s.Store.Confirm(ctx)
}

// History lists the versions of the policy.
func (s *Service) History(ctx context.Context) (a envelope.PolicyHistoryResponse, _ *envelope.Error) {
	all, err := s.Store.History(ctx)
	if err != nil {
		return a, unreached(err)
	}
	return envelope.PolicyHistoryResponse{Versions: all}, nil
}

// Read returns a part of a stored document.
func (s *Service) Read(ctx context.Context, q envelope.PolicyReadRequest) (
	a envelope.PolicyReadResponse, _ *envelope.Error) {
	if !policy.IsDigest(q.SHA256) {
		return a, malformed("sha256 is not a SHA-256 in hexadecimal")
	}
	part, err := s.Store.Part(ctx, q.SHA256, q.Part)
	switch {
	case err != nil:
		return a, unreached(err)
	case part == nil:
		return a, envelope.NewError(envelope.CodeNotFound, "no such part of a document of the policy is stored").
			WithFix("`toolbus policy history` lists the versions whose documents are stored")
	}
	return envelope.PolicyReadResponse{Body: part}, nil
}

// refusal returns the answer to a push that failed with err.
func refusal(err error) *envelope.Error {
	switch {
	case errors.Is(err, ErrMoved):
		return envelope.NewError(envelope.CodePolicyVersion, err.Error()).
			WithFix("look at it with `toolbus policy history`, and push again")
	case errors.Is(err, ErrIncomplete):
		return envelope.NewError(envelope.CodeNotFound, err.Error()).WithFix("push the documents again")
	case errors.Is(err, ErrInvalid):
		return invalid(err)
	}
	return unreached(err)
}

// invalid returns the refusal of a set with problems. Several are violations, each with its place.
func invalid(err error) *envelope.Error {
	e := malformed(err.Error())
	if problems, ok := errors.AsType[tool.Problems](err); ok && len(problems) > 1 {
		e = malformed(fmt.Sprintf("%s: it has %d problems", ErrInvalid, len(problems))).
			WithViolations(problems.Violations()...)
	}
	return e.WithFix("correct the documents: `toolbus policy lint DIR --tools DIR` lists all problems")
}

func malformed(message string) *envelope.Error {
	return envelope.NewError(envelope.CodeMalformed, message)
}

func unreached(err error) *envelope.Error {
	return replica.Answer(err, "the bucket of the policy")
}
