package admin_test

import (
	"context"
	"errors"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/audit/deadletter"
	"github.com/seed-018f16cc/toolbus/internal/auth"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
	"github.com/seed-018f16cc/toolbus/internal/natsserver"
)

// stage is a deployment with identity in this process: a server, a dispatcher, and an executor of the tool greet.
type stage struct {
	dir      string
	url      string
	keys     *deployment.Keys
	secrets  string // the folder of the keys
	operator string // credentials file
	conn     *toolbus.Conn
	missing  func() string // of the dispatcher
	undo     []func()
	sync     bool // dispatchers take it that the server syncs each write
}

// exampleDeployment runs a stage until stop is called.
func exampleDeployment() (s *stage, stop func()) {
	dir, err := os.MkdirTemp("", "toolbus-example-")
	if err != nil {
		log.Fatal(err)
	}
	s, err = newStage(dir, toolbus.DispatcherOptions{AllowAll: true})
	if err != nil {
		log.Fatal(err)
	}
	return s, func() { s.stop(); _ = os.RemoveAll(dir) }
}

// newStage runs a stage in an empty folder. Stop it also after an error.
func newStage(dir string, o toolbus.DispatcherOptions) (*stage, error) {
	s := &stage{dir: dir, secrets: filepath.Join(dir, "keys")}
	if err := s.start(); err != nil {
		return s, err
	}
	return s, s.serve(o)
}

func (s *stage) stop() {
	for i := len(s.undo) - 1; i >= 0; i-- {
		s.undo[i]()
	}
}

// start makes the keys and starts the server.
func (s *stage) start() (err error) {
	if s.keys, err = deployment.Create(s.secrets, "example"); err != nil {
		return err
	}
	public, err := s.keys.Public()
	if err != nil {
		return err
	}
	conf, err := deployment.Config("example", public, deployment.Shape{
		Server: "one", Listen: "127.0.0.1:-1", Store: filepath.Join(s.dir, "store"), MaxStore: 1 << 40,
	})
	if err != nil {
		return err
	}
	file := s.configuration()
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		return err
	}
	srv, err := natsserver.Start(natsserver.Options{Config: conf})
	if err != nil {
		return err
	}
	s.url, s.undo = srv.URL(), append(s.undo, srv.Stop)
	s.operator, err = s.credentials("operator", auth.Principal{Actor: "operator://ann", Role: auth.Operator})
	return err
}

// configuration is the file that the server was configured with.
func (s *stage) configuration() string { return filepath.Join(s.dir, "one.conf") }

// credentials writes a file with a token for p in the default tenant.
func (s *stage) credentials(name string, p auth.Principal) (file string, err error) {
	signer, err := s.keys.Signer()
	if err != nil {
		return "", err
	}
	p.Tenant, p.ID, p.Family = toolbus.DefaultTenant, auth.NewID(), auth.NewID()
	p.Issued = time.Now().Truncate(time.Second)
	p.Expires = p.Issued.Add(time.Hour)
	token, err := signer.Mint(p)
	if err != nil {
		return "", err
	}
	return s.keep(name, token)
}

// keep writes a credentials file.
func (s *stage) keep(name, token string) (file string, err error) {
	file = filepath.Join(s.dir, name+".token")
	return file, os.WriteFile(file, []byte(token+"\n"), 0o600)
}

// connect returns a connection that the stage ends.
func (s *stage) connect(o toolbus.Options) (*toolbus.Conn, error) {
	conn, err := toolbus.Connect(context.Background(), s.url, o)
	if err == nil {
		s.undo = append(s.undo, conn.Close)
	}
	return conn, err
}

// serve runs a dispatcher and an executor.
func (s *stage) serve(o toolbus.DispatcherOptions) (err error) {
	tools := toolbus.NewToolset()
	if err := toolbus.Add(tools, toolbus.Tool{ID: "greet", Class: toolbus.Pure}, greet); err != nil {
		return err
	}
	if s.conn, err = s.connect(toolbus.Options{
		SecretsDir: s.secrets, Topology: toolbus.Topology{SyncAlways: s.sync},
	}); err != nil {
		return err
	}
	ready := make(chan struct{})
	o.Ready = func(string) { close(ready) }
	d, err := s.conn.Dispatcher(tools, o)
	if err != nil {
		return err
	}
	s.missing = d.Missing
	if err := s.run(d.Run, ready); err != nil {
		return err
	}
	return s.execute(tools)
}

// execute runs an executor.
func (s *stage) execute(tools *toolbus.Toolset) error {
	file, err := s.credentials("executor", auth.Principal{
		Actor: "executor://one", Role: auth.Executor, Pool: "default",
	})
	if err != nil {
		return err
	}
	conn, err := s.connect(toolbus.Options{CredentialsFile: file})
	if err != nil {
		return err
	}
	ready := make(chan struct{})
	e, err := conn.Executor(tools, toolbus.ExecutorOptions{Ready: func(string) { close(ready) }})
	if err != nil {
		return err
	}
	return s.run(e.Run, ready)
}

// run runs a part until the stage stops, and returns when it is ready.
func (s *stage) run(part func(context.Context) error, ready <-chan struct{}) error {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- part(ctx); close(ended) }()
	s.undo = append(s.undo, func() { cancel(); <-ended })
	select {
	case <-ready:
		return nil
	case err := <-ended:
		return err
	}
}

func greet(_ context.Context, _ *toolbus.Run, name string) (string, error) {
	if name == "nobody" {
		return "", errors.New("there is nobody to greet")
	}
	return "hello " + name, nil
}

// giveUp publishes a dead letter: a call of greet that executors gave up.
func (s *stage) giveUp(name string) error {
	js, err := jetstream.New(s.conn.NATS())
	if err != nil {
		return err
	}
	r := &envelope.Request{
		CallID: "00000000-0000-4000-8000-000000000001", ToolID: "greet", ToolVersion: "^0.1", Fn: "run",
		Input: jsontext.Value(`"` + name + `"`),
		Context: envelope.RequestContext{
			ActorID: "agent://bob", TraceID: "4bf92f35-77b3-4da6-a3ce-929d0e0e4736", Timezone: "UTC", Env: "prod",
		},
		Constraints: envelope.Constraints{TimeoutMS: 20_000, DeadlineUnixMS: 1, IdempotencyKey: "0123456789abcdef",
			IdempotencyScope: envelope.ScopeActor},
	}
	raw, err := envelope.EncodeRequest(envelope.ContentJSON, r)
	if err != nil {
		return err
	}
	body, err := call.RequestBody{Request: raw}.Encode()
	if err != nil {
		return err
	}
	_, args, err := envelope.Hashes(r, r.Input)
	if err != nil {
		return err
	}
	return deadletter.Publish(context.Background(), js, deadletter.Message{
		Time: time.Now(), Cause: envelope.NewError(envelope.CodeLost, ""), Attempt: 1, Deliveries: 5, Body: body,
		State: call.State{
			Pinned: call.Pinned{Tenant: toolbus.DefaultTenant, Pool: "default", Tool: r.ToolID,
				ID: envelope.CallKeyID(toolbus.DefaultTenant, r), ArgsHash: args},
			Attempts: []call.Attempt{{N: 1, Owner: call.Owner{CallID: r.CallID, Actor: r.Context.ActorID,
				Trace: r.Context.TraceID}}},
		},
	})
}

// token returns the token of the operator.
func (s *stage) token() string {
	text, err := os.ReadFile(s.operator)
	if err != nil {
		log.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// client returns a client of an agent.
func (s *stage) client(file string) (*toolbus.Client, error) {
	conn, err := s.connect(toolbus.Options{CredentialsFile: file})
	if err != nil {
		return nil, err
	}
	return conn.Client(toolbus.ClientOptions{})
}

// mustCall calls greet as agent://bob.
func (s *stage) mustCall(name string) {
	file, err := s.credentials("bob", auth.Principal{Actor: "agent://bob", Role: auth.Agent})
	if err != nil {
		log.Fatal(err)
	}
	client, err := s.client(file)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := toolbus.Invoke[string](context.Background(), client, toolbus.Call{Tool: "greet"}, name); err != nil {
		log.Fatal(err)
	}
	if err := client.Close(); err != nil {
		log.Fatal(err)
	}
}
