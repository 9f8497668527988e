# SPDX-License-Identifier: BSD-3-Clause
# Perl's Cache::Memcached. Arguments: addresses.
use strict;
use warnings;

BEGIN {
    unless (eval { require Cache::Memcached; 1 }) {
        print "Cache::Memcached is not installed\n";
        exit 77;
    }
}

my $checks = 0;

sub check {
    my ($good, $what) = @_;
    $checks++;
    die "failed: $what\n" unless $good;
}

# By default it takes a second without an answer for a miss: too short on a busy machine.
my $c = Cache::Memcached->new({servers => [@ARGV], namespace => "perl:", compress_threshold => 10_000,
                               connect_timeout => 60, select_timeout => 60});

check($c->flush_all, "flush_all");
check($c->set("k", "v"), "set");
check($c->get("k") eq "v", "get");
check(!$c->add("k", "w"), "add of a present key");
check($c->add("new", "w"), "add");
check($c->replace("k", "w") && $c->get("k") eq "w", "replace");
check(!$c->replace("absent", "w"), "replace of an absent key");
check($c->append("k", "x") && $c->prepend("k", "a") && $c->get("k") eq "awx", "append, prepend");
check(!defined $c->get("absent"), "a miss");
check($c->set("ref", {list => [1, 2, 3], name => "n"}), "set of a structure");
check($c->get("ref")->{list}[2] == 3, "get of a structure: flags are kept");
check($c->set("zip", "z" x 100_000) && $c->get("zip") eq "z" x 100_000, "a compressed value");
check($c->set("large", join("", map { chr(33 + $_ * 7919 % 90) } 1 .. 200_000)), "a large value");
check(length($c->get("large")) == 200_000, "get of a large value");
check($c->set("n", 10) && $c->incr("n", 5) == 15 && $c->decr("n", 20) == 0, "incr, decr");
check(!defined $c->incr("absent"), "incr of an absent key");
check($c->delete("k") && !defined $c->get("k"), "delete");
for my $i (0 .. 199) {
    check($c->set("m$i", "value $i", 1000), "set of many");
}
my $many = $c->get_multi(map { "m$_" } 0 .. 399);
check(keys %$many == 200, "get_multi finds what there is");
check($many->{m77} eq "value 77", "get_multi finds the right values");
check($c->set("short", "v", -1) && !defined $c->get("short"), "a deadline in the past");
check($c->stats(["misc"])->{total}{curr_items} >= 200, "stats");
check($c->flush_all && !defined $c->get("m1"), "flush_all empties");
$c->disconnect_all;
print "$checks checks\n";
