package roles

import "strings"

// Publishing gives the roles that may publish to the subject.
func Publishing(c Config, subject string) []Role {
	return having(c, subject, func(p Permissions) Access { return p.Publish })
}

// Subscribing gives the roles that may subscribe to the subject.
func Subscribing(c Config, subject string) []Role {
	return having(c, subject, func(p Permissions) Access { return p.Subscribe })
}

func having(c Config, subject string, direction func(Permissions) Access) (roles []Role) {
	for _, r := range All {
		if direction(Of(c, r)).permits(subject) {
			roles = append(roles, r)
		}
	}
	return roles
}

func (a Access) permits(subject string) bool {
	return matchesAny(a.Allow, subject) && !matchesAny(a.Deny, subject)
}

func matchesAny(patterns []string, subject string) bool {
	for _, p := range patterns {
		if matches(strings.Split(p, "."), strings.Split(subject, ".")) {
			return true
		}
	}
	return false
}

// matches compares as the server does: * is one token, > the rest, of at least one.
func matches(pattern, subject []string) bool {
	for i, token := range pattern {
		switch {
		case i >= len(subject):
			return false
		case token == ">":
			return true
		case token != "*" && token != subject[i]:
			return false
		}
	}
	return len(pattern) == len(subject)
}
