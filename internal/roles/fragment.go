package roles

import (
	"fmt"
	"io"
	"strings"
)

// Account prints an account with a user for each role, as a configuration file of
// nats-server. prefix begins the users' names; empty is the namespace and a dash.
func Account(w io.Writer, c Config, prefix string) error {
	var b strings.Builder
	account := strings.ToUpper(c.Namespace)
	fmt.Fprintf(&b, "accounts {\n  %s {\n    jetstream: enabled\n    users: [\n", account)
	users(&b, c, prefix)
	b.WriteString("    ]\n  }\n}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// Users prints the users alone, to be put into an account that there is.
func Users(w io.Writer, c Config, prefix string) error {
	var b strings.Builder
	users(&b, c, prefix)
	_, err := io.WriteString(w, b.String())
	return err
}

func users(b *strings.Builder, c Config, prefix string) {
	if prefix == "" {
		prefix = c.Namespace + "-"
	}
	for _, r := range All {
		p := Of(c, r)
		fmt.Fprintf(b, "      { # weft --role %s, inbox prefix %s\n", r, InboxPrefix(c.Namespace, r))
		fmt.Fprintf(b, "        user: %q\n        password: $%s\n        permissions: {\n", prefix+string(r), PasswordVariable(c.Namespace, r))
		p.Publish.print(b, "publish")
		p.Subscribe.print(b, "subscribe")
		if r == Operator { // weft serve answers requests, also of users without a role
			b.WriteString("          allow_responses: { max: 1, expires: \"2m\" }\n")
		}
		b.WriteString("        }\n      }\n")
	}
}

// PasswordVariable is the variable of the server's environment that has the
// password of a role.
func PasswordVariable(namespace string, r Role) string {
	return strings.ToUpper(strings.ReplaceAll("WEFT_PASSWORD_"+namespace+"_"+string(r), "-", "_"))
}

func (a Access) print(b *strings.Builder, direction string) {
	fmt.Fprintf(b, "          %s: {\n", direction)
	for _, list := range []struct {
		name     string
		subjects []string
	}{{"allow", a.Allow}, {"deny", a.Deny}} {
		if len(list.subjects) == 0 {
			continue
		}
		fmt.Fprintf(b, "            %s: [\n", list.name)
		for _, s := range list.subjects {
			fmt.Fprintf(b, "              %q\n", s)
		}
		b.WriteString("            ]\n")
	}
	b.WriteString("          }\n")
}
