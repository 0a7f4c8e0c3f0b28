package attack

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	clientlib "github.com/seed-018f16cc/toolbus/internal/client"
	"github.com/seed-018f16cc/toolbus/internal/executor/heartbeat"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// H7: an agent narrows its token to 40 sub-actors, of which each makes eight calls that do not end. Calls of another
// tenant and of another agent of its own tenant succeed at once.
func TestNarrowedBacklog(t *testing.T) {
	t.Parallel()
	d := deploy(t)
	d.pullsAllSteps()
	greedy := d.crowd[mallory].Principal
	for n := range 40 {
		sub, err := greedy.Narrow(auth.Narrowing{Actor: fmt.Sprint(mallory, "/", n)}, time.Now())
		d.ok(err)
		token, err := d.signer.Mint(sub)
		d.ok(err)
		answers, tag := sub.Answers(), strings.Join(append(sub.Below(), "turns."), ".")
		c := d.as(token, answers)
		for word := range 8 {
			d.ok(c.publish("tb.call.evil."+inSubject(sub.Actor)+".hold", answers+"turns."+strconv.Itoa(word),
				rawHeader("Tb-Token: "+token, "Tb-Answer: "+tag+strconv.Itoa(word), "Content-Type: application/json"),
				rawRequest("hold", sub.Actor, uuid.NewString(), "", "")))
		}
		d.ok(c.until(func() bool { return len(c.messages) >= 8 })) // each is accepted
	}
	token, _ := d.token(auth.Principal{Tenant: "evil", Actor: "agent://other", Role: auth.Agent})
	answers := answersOf("evil", "agent://other")
	agent := d.as(token, answers)
	for n := range 20 {
		r, err := d.victim.client.Call(t.Context(), clientlib.Call{
			Tool: "echo", Input: []byte(strconv.Quote(fmt.Sprint("turn ", n))), Timeout: 5 * time.Second,
		})
		if err != nil || r.Status != envelope.Success {
			t.Fatalf("call %d of another tenant: %+v, %v", n, r, err)
		}
		id := uuid.NewString()
		for got, end := "", time.Now().Add(5*time.Second); !strings.Contains(got, `"status":"success"`); {
			if time.Now().After(end) {
				t.Fatalf("call %d of another agent: %s", n, got)
			}
			got = agent.say("tb.call.evil."+inSubject("agent://other")+".echo", token, answers,
				rawRequest("echo", "agent://other", id, "", ""))
		}
	}
	close(d.gate("in"))
	d.finish()
}

// pullsAllSteps returns when dispatchers have heard that executors of the pool pull all steps.
func (d *devDeployment) pullsAllSteps() {
	d.Helper()
	pools, err := heartbeat.OpenStore(d.Context(), d.js, time.Minute)
	d.ok(err)
	a := heartbeat.NewAbsenceMonitor(pools, time.Now, "default")
	for a.Steps("default") < subjects.Steps {
		a.Look(d.Context())
		<-time.After(20 * time.Millisecond)
	}
	<-time.After(2 * time.Second) // dispatchers look each second
}
