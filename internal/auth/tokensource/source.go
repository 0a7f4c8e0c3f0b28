package tokensource

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/seed-018f16cc/toolbus/bus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/timer"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Source is the token of a process. Its methods are safe for concurrent use.
type Source struct {
	file string
	log  *slog.Logger

	mu      sync.Mutex
	token   string
	says    auth.Principal
	ends    time.Time // by the clock of this process, as is renewAt
	renewAt time.Time
}

// Read returns the bearer of the token in a file, which nobody but its owner may read.
func Read(file string, log *slog.Logger) (*Source, error) {
	b := &Source{file: file, log: log}
	token, err := bus.Files{Token: file}.ReadToken()
	if err != nil {
		return nil, err
	}
	says, err := auth.Inspect(token)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	b.take(token, says, time.Until(says.Expires))
	return b, nil
}

// take makes a token the one that is shown, which is good for so long.
func (b *Source) take(token string, says auth.Principal, good time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.token, b.says = token, says
	third := says.Expires.Sub(says.Issued) / 3
	b.ends = time.Now().Add(good)
	b.renewAt = b.ends.Add(-third - rand.N(third/10+1)) // at two thirds of its life
}

// Token returns the token as it is now.
func (b *Source) Token() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.token
}

// Principal returns what the token says.
func (b *Source) Principal() auth.Principal {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.says
}

// Current returns the token, to be shown to a server, and until when that lets the connection be, by the clock of this
// process, and what there is of its life after it is renewed.
func (b *Source) Current() (token string, ends time.Time, left time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.token, b.ends, b.says.Expires.Sub(b.says.Issued) / 3
}

// soon is how much of its life a token should have left for a connection to be made with it.
const soon = 2 * time.Second

// Expired reports whether the token is good for nothing but to be renewed, by the clock of this process.
func (b *Source) Expired() bool {
	_, ends, _ := b.Current()
	return time.Until(ends) < soon
}

// Spent reports whether the token has expired and cannot be renewed any more.
func (b *Source) Spent() bool {
	_, ends, _ := b.Current()
	return time.Now().After(ends) && !time.Now().Before(b.Principal().RenewUntil)
}

// Asker asks dispatchers; rpc.Inbox is one.
type Asker interface {
	Ask(ctx context.Context, op string, q, answer any) (*envelope.Error, error)
}

// RenewalError means that the bus does not accept the token of a file any more, for the reason in Refusal: the token
// was revoked, or it has expired and cannot be renewed.
type RenewalError struct {
	File  string
	Cause *envelope.Error
}

// Error implements error.
func (r *RenewalError) Error() string {
	return fmt.Sprintf("the credential %s is refused: %s: %s (%s)", r.File, r.Cause.Code, r.Cause.Message,
		r.Cause.Fix)
}

// Denied returns the reason why the server refused a connection with the token after a dispatcher had answered. The
// server says no more than that it did. So a token that has not ended by the clock of this process counts as revoked;
// its key may be unknown to the deployment as well.
func (b *Source) Denied() *RenewalError {
	e := envelope.NewError(envelope.CodeRevoked,
		"the bus does not accept the token: it was revoked, or signed with a key that is not, or no longer, of this bus")
	if b.Spent() {
		ends := b.Principal().Expires
		if until := b.Principal().RenewUntil; until.After(ends) {
			ends = until
		}
		e = envelope.NewError(envelope.CodeExpired,
			"the token expired at "+ends.UTC().Format(time.RFC3339)+" for good; it cannot be renewed")
	}
	return &RenewalError{b.file, e.WithFix("ask an operator for a new credential: `toolbus credentials issue` makes one")}
}

// Renew exchanges the token, unless another process has done so and left the new one in the file.
func (b *Source) Renew(ctx context.Context, asker Asker) error {
	if b.adopted() {
		return nil
	}
	var answer envelope.TokenResponse
	refusal, err := asker.Ask(ctx, subjects.OpTokenRenew, struct{}{}, &answer)
	switch {
	case err != nil:
		return err
	case refusal != nil && refusal.Code.Retryable():
		return errors.New(refusal.String())
	case refusal != nil:
		return &RenewalError{b.file, refusal}
	}
	says, err := auth.Inspect(answer.Token)
	if err != nil {
		return err
	}
	b.take(answer.Token, says, says.Expires.Sub(says.Issued))
	if err := b.write(answer.Token); err != nil {
		b.log.Warn("the renewed credential is kept in memory alone", "file", b.file, "err", err)
	}
	return nil
}

// adopted takes a token from the file that is better than this one.
func (b *Source) adopted() bool {
	token, err := bus.Files{Token: b.file}.ReadToken()
	if err != nil {
		return false // the one here is as good as ever
	}
	says, err := auth.Inspect(token)
	if err != nil || !says.Expires.After(b.Principal().Expires) {
		return false
	}
	b.take(token, says, time.Until(says.Expires))
	return !b.Expired()
}

// write replaces the file, so that whoever reads it finds the one token or the other.
func (b *Source) write(token string) (err error) {
	file, err := filepath.EvalSymlinks(b.file)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".renewed-*") // readable for its owner alone
	if err != nil {
		return err
	}
	_, err = f.WriteString(token + "\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// How long dispatchers that do not answer, or refuse, are left alone.
const (
	pause       = 500 * time.Millisecond
	maxPause    = 2 * time.Second // whoever waits for it has no connection, or one that is of no use
	refusedTime = time.Minute
	askTime     = 5 * time.Second // at the most
	minAsk      = 100 * time.Millisecond
)

// firstAsk returns how long the first answer is waited for. There is time for a further question before the token
// expires: one may be lost, or its answer.
func (b *Source) firstAsk() time.Duration {
	_, _, left := b.Current()
	return min(max(left/4, minAsk), askTime)
}

// Run renews the token whenever it is time, until ctx ends. After one that had expired it calls again, which is to
// connect anew: until then the connection can do nothing else.
func (b *Source) Run(ctx context.Context, asker Asker, again func()) {
	for {
		b.mu.Lock()
		at := b.renewAt
		b.mu.Unlock()
		if !timer.Sleep(ctx, time.Until(at)) {
			return
		}
		expired, ok := b.insist(ctx, asker)
		if !ok {
			return
		}
		if expired {
			again()
		}
	}
}

// insist asks until the token is renewed, and reports whether it was before ctx ended. With expired the token had ended
// by then, perhaps while nobody answered, so that the connection may be one that can do nothing else.
func (b *Source) insist(ctx context.Context, asker Asker) (expired, ok bool) {
	r := timer.Backoff{Pause: pause, MaxPause: maxPause, Try: b.firstAsk(), MaxTry: askTime}
	for told := false; ; {
		expired = b.Expired()
		err := r.Once(ctx, func(ctx context.Context) error { return b.Renew(ctx, asker) })
		if err == nil {
			return expired, true
		}
		next := r.Next()
		if refused, ok := errors.AsType[*RenewalError](err); ok {
			next = refusedTime
			if !told {
				b.log.Error("have a credential issued anew: what this process asks for is refused from now on", "file", b.file,
					"code", refused.Cause.Code, "err", err)
			}
			told = true
		} else if ctx.Err() == nil && b.Expired() {
			b.log.Warn("the credential has expired, and is not renewed yet", "err", err)
		}
		if !timer.Sleep(ctx, next) {
			return expired, false
		}
	}
}
