// Package frontdoor is a module of its own, as a team that uses Toolbus has one: of Toolbus it imports the front door
// and nothing else.
package frontdoor

import (
	"context"
	"sync"

	"github.com/seed-018f16cc/toolbus"
)

// Payment is what is asked for.
type Payment struct {
	To    string `json:"to" jsonschema:"the account"`
	Cents int64  `json:"cents"`
}

// Receipt is the answer.
type Receipt struct {
	Number int `json:"number"`
}

// ErrNoAccount is what payments to nobody end in.
var ErrNoAccount = &toolbus.ToolError{
	Name: "no_account", Class: "P-PRECOND", Message: "there is no such account", Fix: "open the account first",
	Effect: toolbus.EffectNone,
}

// Ledger is where money moves: once for each idempotency key.
type Ledger struct {
	mu   sync.Mutex
	paid map[string]Receipt
}

// Tools are the tools of the ledger.
func (l *Ledger) Tools() (*toolbus.Toolset, error) {
	tools := toolbus.NewToolset()
	return tools, toolbus.Add(tools, toolbus.Tool{
		ID: "ledger.pay", Class: toolbus.SideEffectful, Errors: []*toolbus.ToolError{ErrNoAccount},
	}, l.pay, toolbus.WithLookup(l.lookup))
}

func (l *Ledger) pay(_ context.Context, run *toolbus.Run, p Payment) (Receipt, error) {
	if p.To == "nobody" {
		return Receipt{}, ErrNoAccount.Because("%s has no account", p.To)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paid == nil {
		l.paid = map[string]Receipt{}
	}
	if _, done := l.paid[run.IdempotencyKey]; !done {
		l.paid[run.IdempotencyKey] = Receipt{len(l.paid) + 1}
	}
	return l.paid[run.IdempotencyKey], nil
}

func (l *Ledger) lookup(_ context.Context, run *toolbus.Run, _ Payment) (Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r, done := l.paid[run.IdempotencyKey]; done {
		return r, nil
	}
	return Receipt{}, toolbus.ErrAbsent
}
