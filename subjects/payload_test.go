package subjects

import (
	"strings"
	"testing"
)

// A part is named by the exact form of its subject, as it is sent and as dispatchers hear it, and by nothing else.
func TestParsePayload(t *testing.T) {
	sum := strings.Repeat("0a", 32)
	sent := Owner{Tenant: "acme", Actor: "agent://a"}.On("gpu").Payload(sum, 7)
	heard := strings.Replace(sent, payloadPrefix, partPrefix, 1)
	want := PayloadPart{Tenant: "acme", Actor: "agent_3a_2f_2fa", SHA256: sum, Part: 7, Pool: "gpu"}
	for _, subject := range []string{sent, heard} {
		if got, err := ParsePayload(subject); err != nil || got != want || got.Subject() != sent {
			t.Errorf("%s is read as %+v, %v", subject, got, err)
		}
	}
	if tenant, actor, ok := CallerTokens(heard); !ok || tenant != want.Tenant || actor != want.Actor {
		t.Errorf("%s is of %s, %s, %t", heard, tenant, actor, ok)
	}
	for _, rest := range []string{
		"", ">", "acme.a", "acme.a." + sum + ".0", "acme.a." + sum + ".0.gpu.x",
		">.a." + sum + ".0.gpu", "acme.*." + sum + ".0.gpu",
		"acme.a.>.0.gpu", "acme.a." + sum + ".>.gpu", "acme.a." + sum + ".0.>", "acme.a." + sum + ".-1.gpu",
		"acme.a." + sum + ".00.gpu", "acme.a." + sum + ".+1.gpu", "acme.a." + sum[1:] + ".0.gpu", "acme..." + sum + ".0",
		"acme.a." + strings.ToUpper(sum) + ".0.gpu", "acme.a." + sum + ".0.G_PU",
		"acme.a." + sum + ".99999999999999999999.gpu",
	} {
		if got, err := ParsePayload(partPrefix + rest); err == nil {
			t.Errorf("%q is read as %+v", rest, got)
		}
	}
}

// An executor reads what is of its pool: the pool is in the subject of a part, and of chunks where there is identity.
func TestPoolOf(t *testing.T) {
	chunk := ChunkSource{Tenant: "acme", Actor: "a", ID: "x", Attempt: 1, Fence: 7}
	on := chunk
	on.Pool = "gpu"
	for subject, want := range map[string]string{
		Owner{Tenant: "acme", Actor: "a"}.On("gpu").Payload(strings.Repeat("0", 64), 0): "gpu",
		on.Subject(): "gpu", chunk.Subject(): "",
	} {
		if pool, ok := PoolOf(subject); !ok || pool != want {
			t.Errorf("%s is of %q, %t", subject, pool, ok)
		}
	}
	for _, subject := range []string{
		"", "tb.payload.>", "tb.chunk.>", "tb.chunk.a.b.c.1.1.gpu.x", "$KV.calls.x", on.Subject() + ".>",
	} {
		if pool, ok := PoolOf(subject); ok {
			t.Errorf("%s is of %q", subject, pool)
		}
	}
}
