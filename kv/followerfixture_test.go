package kv_test

import (
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
)

// followerFixture is a bus with what the tests of this package do to it.
type followerFixture struct{ *bustest.Bus }

func setupFollower(t *testing.T) *followerFixture {
	t.Helper()
	return &followerFixture{bustest.Start(t)}
}
