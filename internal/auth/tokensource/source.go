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
	"github.com/seed-018f16cc/toolbus/internal/operation"
	"github.com/seed-018f16cc/toolbus/internal/timer"
)

// Source holds the token of a process, which it read from a file, and renews it. Its methods are safe for concurrent
// use.
type Source struct {
	file   string
	log    *slog.Logger
	issued chan struct{} // Run hears of another credential

	mu      sync.Mutex
	token   string
	says    auth.Principal
	ends    time.Time // both times are by the clock of this process
	renewAt time.Time
}

// Read returns a Source of the token in a file. Only the owner of the file may have permission to read it. It does not
// verify the token.
func Read(file string, log *slog.Logger) (*Source, error) {
	b := &Source{file: file, log: log, issued: make(chan struct{}, 1)}
	token, err := bus.Files{Token: file}.ReadToken()
	if err != nil {
		return nil, err
	}
	says, err := auth.Inspect(token)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", file, err, fixRefused)
	}
	b.take(token, says, time.Until(says.Expires))
	return b, nil
}

// take stores a token that expires in the given time.
func (b *Source) take(token string, says auth.Principal, good time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.token, b.says = token, says
	third := says.Expires.Sub(says.Issued) / 3
	b.ends = time.Now().Add(good)
	b.renewAt = b.ends.Add(-third - rand.N(third/10+1)) // at about two thirds of its lifetime
}

// Token returns the current token.
func (b *Source) Token() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.token
}

// Principal returns the content of the current token.
func (b *Source) Principal() auth.Principal {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.says
}

// Current returns the current token, the time at which it expires and the server closes a connection that was opened
// with it, by the clock of this process, and a third of its lifetime, which is what remains when its renewal is due.
func (b *Source) Current() (token string, ends time.Time, left time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.token, b.ends, b.says.Expires.Sub(b.says.Issued) / 3
}

// soon is how long before its end a token counts as expired.
const soon = 2 * time.Second

// Expired reports whether the token has expired, or expires within 2 s, by the clock of this process. It can then only
// be renewed.
func (b *Source) Expired() bool {
	_, ends, _ := b.Current()
	return time.Until(ends) < soon
}

// Spent reports whether the token has expired and can no longer be renewed.
func (b *Source) Spent() bool {
	_, ends, _ := b.Current()
	return time.Now().After(ends) && !time.Now().Before(b.Principal().RenewUntil)
}

// RenewalError means that the bus no longer accepts the token of a file. Cause is the reason: the token was revoked, or
// it has expired and can no longer be renewed. Reissued means that the file has another credential by now, which the
// process takes when it connects with another instance name.
type RenewalError struct {
	File     string
	Cause    *envelope.Error
	Reissued bool
}

// Error implements error.
func (r *RenewalError) Error() string {
	return fmt.Sprintf("the credential %s is refused: %s: %s (%s)", r.File, r.Cause.Code, r.Cause.Message,
		r.Cause.Fix)
}

// Denied returns the probable reason why the server refused a connection with the token after a dispatcher had
// answered. The server does not tell the reason. It is A-AUTH-EXPIRED if the token is spent, otherwise A-AUTH-REVOKED,
// although the signing key of the token may also be unknown to the deployment.
func (b *Source) Denied() *RenewalError {
	e := envelope.NewError(envelope.CodeRevoked,
		"the bus does not accept the token: it was revoked, or signed with a key that is not, or no longer, of this bus").
		WithFix(fixRefused + "; on a bus of `toolbus dev` take the file that this bus prints, as " +
			"export TOOLBUS_CREDENTIALS=…: yours may be that of another one")
	if b.Spent() {
		ends := b.Principal().Expires
		if until := b.Principal().RenewUntil; until.After(ends) {
			ends = until
		}
		e = envelope.NewError(envelope.CodeExpired,
			"the token expired at "+ends.UTC().Format(time.RFC3339)+" for good; it cannot be renewed").
			WithFix(fixRefused)
	}
	return &RenewalError{File: b.file, Cause: e}
}

// fixRefused is the fix for a token that the bus accepts no more.
const fixRefused = "ask an operator for a new credential: `toolbus credentials issue` makes one"

// Renew requests a new token and writes it to the file, unless another process has already written a newer one, which
// Renew then uses. It returns a *[RenewalError] if dispatchers refuse the renewal and will not accept it later.
func (b *Source) Renew(ctx context.Context, asker operation.Asker) error {
	if b.adopted() {
		return nil
	}
	answer, refusal, err := operation.TokenRenew.Ask(ctx, asker, struct{}{})
	switch {
	case err != nil:
		return err
	case refusal != nil && refusal.Code.Retryable():
		return errors.New(refusal.String())
	case refusal != nil:
		return &RenewalError{File: b.file, Cause: refusal}
	}
	says, err := auth.Inspect(answer.Token)
	if err != nil {
		return err
	}
	b.take(answer.Token, says, says.Expires.Sub(says.Issued))
	if _, held, ok := b.filed(); ok && held.Family != says.Family {
		return nil // an operator has issued another credential into the file
	}
	if err := b.write(answer.Token); err != nil {
		b.log.Warn("the renewed credential is kept in memory alone", "file", b.file, "err", err)
	}
	return nil
}

// adopted reads the file and uses its token if that expires later than the current one. It reports whether it did and
// that token has not expired.
func (b *Source) adopted() bool {
	token, says, ok := b.filed()
	if was := b.Principal(); !ok || !says.Expires.After(was.Expires) || !replaces(says, was) {
		return false // keep the current token
	}
	b.take(token, says, time.Until(says.Expires))
	return !b.Expired()
}

// filed returns the token of the file if it is not the current one.
func (b *Source) filed() (token string, says auth.Principal, ok bool) {
	token, err := bus.Files{Token: b.file}.ReadToken()
	if err != nil || token == b.Token() {
		return "", says, false
	}
	says, err = auth.Inspect(token)
	return token, says, err == nil
}

// replaces reports whether a connection that was opened with a token of was may show one of p. The server allows
// an executor only instance names of its credential, and some agents only an inbox of theirs.
func replaces(p, was auth.Principal) bool {
	return p.Tenant == was.Tenant && p.Actor == was.Actor && p.Role == was.Role && p.Pool == was.Pool &&
		p.Inbox() == was.Inbox() && (p.Role != auth.Executor || auth.InstancePrefix(p) == auth.InstancePrefix(was))
}

// Reissue uses the token of the file if it is another one than the current one, which the bus has refused. It reports
// whether it did. The error is a *[RenewalError] if an executor must connect with another instance name for that.
func (b *Source) Reissue() (bool, error) {
	token, says, ok := b.filed()
	was := b.Principal()
	switch {
	case !ok:
		return false, nil
	case replaces(says, was):
		b.take(token, says, time.Until(says.Expires))
		select {
		case b.issued <- struct{}{}:
		default: // Run has not heard of the last one
		}
		return true, nil
	case was.Role == auth.Executor && says.Role == auth.Executor:
		refused := b.Denied()
		refused.Reissued, refused.Cause = true, refused.Cause.WithFix("the file has another credential by now: start the "+
			"process again")
		return false, refused
	}
	return false, nil
}

// write replaces the file by a rename, so readers find either the old or the new token.
func (b *Source) write(token string) (err error) {
	file, err := filepath.EvalSymlinks(b.file)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".renewed-*") // has mode 0600
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

// Pauses between requests for a renewal, and how long to wait for each answer.
const (
	pause       = 500 * time.Millisecond
	maxPause    = 2 * time.Second // short: until the renewal, the process may have no usable connection
	refusedTime = time.Minute
	askTime     = 5 * time.Second // at the most
	minAsk      = 100 * time.Millisecond
)

// firstAsk returns how long to wait for the answer to the first request: short enough to repeat it before the token
// expires.
func (b *Source) firstAsk() time.Duration {
	_, _, left := b.Current()
	return min(max(left/4, minAsk), askTime)
}

// Run renews the token whenever that is due, until ctx ends. If the old token had expired, it calls again after the
// renewal. The function again must reconnect, because a connection with an expired token can only renew it.
func (b *Source) Run(ctx context.Context, asker operation.Asker, again func()) {
	for {
		b.mu.Lock()
		at := b.renewAt
		b.mu.Unlock()
		select {
		case <-time.After(time.Until(at)):
		case <-b.issued: // and is due at another time
			continue
		case <-ctx.Done():
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

// insist repeats the request until the token is renewed. ok is false if ctx ended before. expired reports whether the
// old token had expired before the last request.
func (b *Source) insist(ctx context.Context, asker operation.Asker) (expired, ok bool) {
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
