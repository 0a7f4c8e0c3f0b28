package executorapi_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/executor/executorapi"
	"github.com/seed-018f16cc/toolbus/subjects"
)

const loginID = "abcdefghijklmnopqrstuvwxyz234567"

// TestLoginEntry holds that executors of all pools share the entry of a login, and that one of several writes wins.
func TestLoginEntry(t *testing.T) {
	f := setup(t)
	defer f.serve("d1")()
	defer f.serve("d2")()
	one, two := executorapi.Logins{Client: f.client("default")}, executorapi.Logins{Client: f.client("other")}
	if data, revision, err := one.Read(t.Context(), loginID); len(data) > 0 || revision != 0 || err != nil {
		t.Errorf("got %q, %d, %v", data, revision, err)
	}
	for round := range 5 {
		_, revision, err := two.Read(t.Context(), loginID)
		if err != nil {
			t.Fatal(err)
		}
		var stored atomic.Int64
		var winner atomic.Value
		var all sync.WaitGroup
		for i, l := range []executorapi.Logins{one, two, one, two} {
			all.Go(func() {
				data := strings.Repeat("x", 10*round) + string(rune('a'+i))
				won, err := l.Write(t.Context(), loginID, []byte(data), revision)
				if err != nil {
					t.Error(err)
				}
				if won {
					stored.Add(1)
					winner.Store(data)
				}
			})
		}
		all.Wait()
		data, after, err := one.Read(t.Context(), loginID)
		if stored.Load() != 1 || string(data) != winner.Load() || after <= revision || err != nil {
			t.Errorf("%d were stored; the entry is %q of %d, %v", stored.Load(), data, after, err)
		}
	}
}

// TestLoginAgain holds that a write that is repeated, because its answer was lost, counts as stored.
func TestLoginAgain(t *testing.T) {
	f := setup(t)
	defer f.serve("d")()
	l := executorapi.Logins{Client: f.client("default")}
	for range 2 {
		if stored, err := l.Write(t.Context(), loginID, []byte("sealed"), 0); !stored || err != nil {
			t.Errorf("stored is %t, %v", stored, err)
		}
	}
	if stored, err := l.Write(t.Context(), loginID, []byte("other"), 0); stored || err != nil {
		t.Errorf("stored is %t, %v", stored, err)
	}
}

// TestLoginUnknown holds that an executor does not wait long for dispatchers of an earlier build, which know no logins.
func TestLoginUnknown(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, _, err := executorapi.Logins{Client: f.client("default")}.Read(t.Context(), loginID)
	if !errors.Is(err, executorapi.ErrNoDispatcher) || !strings.Contains(err.Error(), "knows logins at MCP servers") {
		t.Errorf("got %v", err)
	}
}

// TestLoginMalformed holds that executors reach no other entries, and store no large ones.
func TestLoginMalformed(t *testing.T) {
	f := setup(t)
	defer f.serve("d")()
	l := executorapi.Logins{Client: f.client("default")}
	for _, id := range []string{"", "*", ">", loginID[1:], loginID + "a", strings.ToUpper(loginID), loginID[2:] + ".a"} {
		if _, _, err := l.Read(t.Context(), id); err == nil {
			t.Errorf("%q is an id", id)
		}
	}
	if _, err := l.Write(t.Context(), loginID, make([]byte, 64<<10+1), 0); err == nil {
		t.Error("a large entry was stored")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := l.Read(ctx, loginID); err == nil {
		t.Error("a request after its context succeeded")
	}
	if info, err := f.JS.Stream(t.Context(), subjects.LoginsStream); err != nil || info.CachedInfo().State.Msgs != 0 {
		t.Errorf("the bucket is not empty: %v", err)
	}
}
