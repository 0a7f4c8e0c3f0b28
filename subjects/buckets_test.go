package subjects_test

import (
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/subjects"
)

// The keys of what operators store keep names apart, whatever these contain, and are read back.
func TestKeysOfBuckets(t *testing.T) {
	names := []string{"a", "a.b", "a>*", "é", strings.Repeat("n", 200)}
	seen := map[string]string{}
	for _, tenant := range names {
		for _, id := range names {
			key := subjects.Run(tenant, id)
			if other, ok := seen[key]; ok {
				t.Errorf("%q of %q has the key of %s", id, tenant, other)
			}
			seen[key] = id + " of " + tenant
			prefix, _ := strings.CutSuffix(subjects.RunsOf(tenant), "*")
			if last, ok := strings.CutPrefix(key, prefix); !ok || strings.ContainsAny(last, ".*> ") {
				t.Errorf("%q does not fit the filter %q", key, subjects.RunsOf(tenant))
			}
		}
	}
	for _, n := range []int{0, 64} {
		if digest, ok := subjects.ParsePolicyPart(subjects.PolicyPart("00ff", n)); !ok || digest != "00ff" {
			t.Errorf("part %d is of %q, %t", n, digest, ok)
		}
	}
	for _, key := range []string{subjects.PolicyEntry, "doc.", "doc.00ff", "x.00ff.1"} {
		if digest, ok := subjects.ParsePolicyPart(key); ok {
			t.Errorf("%q is part of document %q", key, digest)
		}
	}
	kid, isKey := subjects.ParseSigningKey(subjects.SigningKey("k1"))
	family, isRevoked := subjects.ParseRevoked(subjects.Revoked("f1"))
	if !isKey || !isRevoked || kid != "k1" || family != "f1" {
		t.Errorf("read back as %q, %t and %q, %t", kid, isKey, family, isRevoked)
	}
	if tenant, actor, ok := subjects.ParseRevokedActor(subjects.RevokedActor("t.1", "a://b")); !ok || tenant != "t.1" ||
		actor != "a://b" {
		t.Errorf("read back as %q, %q, %t", tenant, actor, ok)
	}
	if !subjects.IsRevokedActor(subjects.RevokedActor("t", "a")) || subjects.IsRevokedActor(subjects.Issued("f1")) {
		t.Error("the entry of an actor is not known")
	}
}
