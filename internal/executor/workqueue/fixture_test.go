package workqueue_test

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// fixture is a bus with what the tests of this package do to it.
type fixture struct{ *bustest.Bus }

func setup(t *testing.T) *fixture {
	t.Helper()
	return &fixture{bustest.Start(t)}
}
