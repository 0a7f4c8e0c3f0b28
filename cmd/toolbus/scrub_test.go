package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/seed-018f16cc/toolbus/internal/natsserver/bustest"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// `doctor --scrub` that is interrupted while it reads says so. It prints no check: those that failed because of the
// interruption say nothing about the streams.
func TestInterruptedScrub(t *testing.T) {
	b := bustest.Start(t)
	for range 2 {
		if _, err := b.JS.Publish(t.Context(), "tb.denied.d1.acme", []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	began := time.Now()
	_, err := b.NC.Subscribe("$JS.EVENT.ADVISORY.CONSUMER.CREATED."+subjects.DeniedStream+".>", func(*nats.Msg) {
		began = time.Now()
		interrupt()
	})
	if err == nil {
		err = b.NC.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	var out, says strings.Builder
	env := environment{stdin: strings.NewReader(""), stdout: &out, stderr: &says, url: b.Srv.URL, home: t.TempDir()}
	code := run(ctx, env, []string{"doctor", "--scrub"})
	if took := time.Since(began); code != exitInterrupted || took > 2*time.Second || out.Len() > 0 ||
		!strings.HasSuffix(says.String(), "interrupted\n") {
		t.Errorf("exit %d after %s: %s\n%s", code, took, says.String(), out.String())
	}
	if code := run(ctx, env, []string{"doctor"}); code != exitInterrupted || out.Len() > 0 {
		t.Errorf("the usual checks: exit %d: %s", code, out.String())
	}
	bustest.WaitForNoConsumers(t, b.JS, subjects.DeniedStream)
}

// Only on a bus of `toolbus dev` the folder of its secrets is the example.
func TestScrubWithoutSecrets(t *testing.T) {
	srv, dir := unserved(t)
	code, _, stderr := shell{t: t, url: srv.URL}.do("doctor", "--scrub", "--credentials",
		filepath.Join(dir, "operator.token"))
	if code != exitUsage || !strings.Contains(stderr, "for example keys in the folder of `toolbus keys init`") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}
