package members_test

import (
	"fmt"

	"github.com/seed-018f16cc/toolbus/internal/members"
)

func ExampleWriter() {
	w := members.Writer{}
	w.Text(`{"fn":`, `say "hello"`)
	w.TextIf(`,"locale":`, "")
	w.Int(`,"timeout_ms":`, 1500)
	w.Value(`,"input":`, []byte(`{ "a": [1, 2] }`))
	w.Raw(`}`)
	fmt.Println(string(w.Bytes), w.Odd)

	w.Text("", "no text: \xff")
	fmt.Println(w.Odd)
	// Output:
	// {"fn":"say \"hello\"","timeout_ms":1500,"input":{"a":[1,2]}} false
	// true
}
