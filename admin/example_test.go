package admin_test

import (
	"context"
	"fmt"
	"log"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
)

// An operator connects with a file that holds a token of the role operator.
func ExampleConnect() {
	d, stop := exampleDeployment()
	defer stop()

	operator, err := admin.Connect(context.Background(), d.url, admin.Options{CredentialsFile: d.operator})
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()
	letters, err := operator.DeadLetters(context.Background())
	fmt.Println(len(letters), err)
	// Output: 0 <nil>
}

// An operator issues the token of an agent, and revokes it by its family.
func ExampleClient_IssueToken() {
	d, stop := exampleDeployment()
	defer stop()
	ctx := context.Background()
	operator, err := admin.Connect(ctx, d.url, admin.Options{CredentialsFile: d.operator})
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()

	token, err := operator.IssueToken(ctx, admin.IssueRequest{
		Tenant: "default", Actor: "agent://bob", Role: "agent", LifeS: 900, RenewS: 86400,
	})
	if err != nil {
		log.Fatal(err)
	}
	for c, err := range operator.Credentials(ctx, admin.CredentialFilter{Actor: "agent://bob"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(c.Actor, c.Role, "by", c.By, c.Family == token.Family)
	}
	revoked, err := operator.RevokeTokens(ctx, admin.RevokeRequest{Family: token.Family})
	fmt.Println(revoked.Families, err)
	// Output:
	// agent://bob agent by default/operator://ann true
	// 1 <nil>
}

// A new key replaces the key that tokens are signed with. Tokens of the former key are good until they expire.
func ExampleClient_RotateKeys() {
	d, stop := exampleDeployment()
	defer stop()
	operator, err := admin.Connect(context.Background(), d.url, admin.Options{CredentialsFile: d.operator})
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()

	rotation, err := operator.RotateKeys(context.Background(), false)
	fmt.Println(rotation.KeyID != "", rotation.Until.After(rotation.Since), err)
	// Output: true true <nil>
}

// With Follow the records of the past come first and new ones as they are written, until the context ends or the loop
// is left.
func ExampleClient_AuditRecords() {
	d, stop := exampleDeployment()
	defer stop()
	d.mustCall("Ada")
	ctx := context.Background()
	operator, err := admin.Connect(ctx, d.url, admin.Options{CredentialsFile: d.operator})
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()

	for r, err := range operator.AuditRecords(ctx, admin.AuditFilter{Tool: "greet", Follow: true}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(r.Event, "attempt", r.Attempt, "of", r.Actor)
		if r.Status == envelope.Success {
			break
		}
	}
	// Output:
	// tool_requested attempt 1 of agent://bob
	// tool_allowed attempt 1 of agent://bob
	// tool_executed attempt 1 of agent://bob
}

// A dead letter is a call that executors could not run. A retry makes the call again, as the actor who made it.
func ExampleClient_RetryDeadLetter() {
	d, stop := exampleDeployment()
	defer stop()
	if err := d.giveUp("Ada"); err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	operator, err := admin.Connect(ctx, d.url, admin.Options{CredentialsFile: d.operator})
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()

	letters, err := operator.DeadLetters(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, letter := range letters {
		fmt.Println(letter.Tool, letter.Deliveries, letter.Cause.Code)
		resp, err := operator.RetryDeadLetter(ctx, letter.Seq, "")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(resp.Status, string(resp.Output))
	}
	// Output:
	// greet 5 S-TOOL-LOST
	// success "hello Ada"
}

// Diagnose needs no rights but those of the credential. Each check that does not pass says what to do.
func ExampleDiagnose() {
	d, stop := exampleDeployment()
	defer stop()

	o := toolbus.ClientOptions{Actor: "operator://ann", Token: d.token}
	for _, check := range admin.Diagnose(context.Background(), d.url, o) {
		if check.Name == "dispatchers" || check.Status == admin.CheckFailed {
			fmt.Println(check.Name, check.Status, check.Says, check.Fix)
		}
	}
	// Output: dispatchers ok answering, 1 tool
}

// With the secrets of the deployment, which dispatchers have, Diagnose looks at servers and accounts as well.
func ExampleDiagnoseWithSecrets() {
	d, stop := exampleDeployment()
	defer stop()

	checks, err := admin.DiagnoseWithSecrets(context.Background(), d.url, d.secrets, "standard")
	if err != nil {
		log.Fatal(err)
	}
	for _, check := range checks {
		if check.Status == admin.CheckFailed {
			fmt.Println(check.Name) // check.Says what is wrong, and check.Fix what to do
		}
	}
	// Output:
	// servers
	// replicas
}

// Configuration reads the configuration file of a server, which need not run.
func ExampleConfiguration() {
	d, stop := exampleDeployment()
	defer stop()

	for _, check := range admin.Configuration(d.configuration(), "single") {
		fmt.Println(check.Name, check.Status)
	}
	// Output:
	// account limits ok
	// slow clients ok
	// server log ok
}
