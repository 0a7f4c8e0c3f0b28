package writer_test

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// fixture is a bus with helpers for these tests.
type fixture struct{ *bustest.Bus }

func setup(t *testing.T) *fixture {
	t.Helper()
	return &fixture{bustest.Start(t)}
}
