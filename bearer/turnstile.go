package bearer

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Turnstile says how often somebody tries to connect whom the server does not let in. Where dispatchers have said so,
// which takes milliseconds, the token was revoked, or has ended: another try would be as vain as the last. Where
// nobody has answered, which takes two seconds, no dispatcher is there, and every moment counts. It is safe for
// concurrent use.
type Turnstile struct {
	Bearer *Bearer

	mu      sync.Mutex
	tried   time.Time // when the last try began
	refused int       // times in a row
	since   time.Time // the first of them
}

const (
	// answered is how long a refusal takes at the most that is a dispatcher's: a server waits for twice as long.
	answered = time.Second
	// retry is when a connection that was lost is made anew, and half as much is random.
	retry = 100 * time.Millisecond
	// firstRefused is how long is waited after the second refusal in a row, and twice as long after each more, up to
	// maxRefused; a quarter more, or less, is random.
	firstRefused = time.Second
	maxRefused   = 30 * time.Second
	// GiveUp is after how long of refusals alone nobody tries any more.
	GiveUp = time.Minute
)

// certain is the number of refusals in a row from which on a connection counts as refused. One may be an accident.
const certain = 2

// Refused returns the reason why the last tries were refused, an error of type [Refused]; nil if they were not, or
// since Admitted.
func (t *Turnstile) Refused() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused < certain {
		return nil
	}
	return t.Bearer.Denied()
}

// Admitted notes that the server has accepted a connection.
func (t *Turnstile) Admitted() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refused = 0
}

// Pause says how long to wait before the next try, after one that the server has refused, or after anything else. An
// error says why there is to be none.
func (t *Turnstile) Pause(refused bool) (pause time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	refused = refused && now.Sub(t.tried) < answered
	switch {
	case !refused:
		t.refused = 0
	case t.refused == 0:
		t.refused, t.since = 1, now
	default:
		t.refused++
	}
	if refused && (t.Bearer.Spent() || now.Sub(t.since) >= GiveUp) {
		return 0, t.Bearer.Denied()
	}
	if t.refused < 2 {
		pause = retry + rand.N(retry/2)
	} else {
		pause = min(firstRefused<<min(t.refused-2, 10), maxRefused)
		pause += rand.N(pause/2) - pause/4
	}
	t.tried = now.Add(pause)
	return pause, nil
}
