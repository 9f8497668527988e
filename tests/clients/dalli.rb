# SPDX-License-Identifier: BSD-3-Clause
# Ruby's dalli. Arguments: addresses.
begin
  require 'dalli'
rescue LoadError
  puts 'dalli is not installed'
  exit 77
end

$checks = 0

def check(what, good)
  $checks += 1
  abort "failed: #{what}" unless good
end

def exercise(servers, options)
  c = Dalli::Client.new(servers, options)
  check('flush', c.flush.all? { |done| done })
  check('set', c.set('k', 'v'))
  check('get', c.get('k') == 'v')
  check('add of a present key', !c.add('k', 'w'))
  check('add', c.add('new', 'w'))
  check('replace', c.replace('k', 'w') && c.get('k') == 'w')
  c.replace('absent', 'w')
  check('replace of an absent key', c.get('absent').nil?)
  check('set of a structure', c.set('ref', { list: [1, 2, 3] }))
  check('get of a structure', c.get('ref')[:list] == [1, 2, 3])
  check('raw', c.set('raw', 'ab', 0, raw: true))
  check('append', c.append('raw', 'c'))
  check('prepend', c.prepend('raw', '_'))
  check('both', c.get('raw', raw: true) == '_abc')
  check('a miss', c.get('absent').nil?)
  check('fetch of an absent key', c.fetch('fetched') { 'made' } == 'made')
  check('fetch of a present key', c.fetch('fetched') { 'again' } == 'made')
  check('incr that creates', c.incr('n', 1, 0, 10) == 10)
  check('incr', c.incr('n', 5) == 15)
  check('decr stops at zero', c.decr('n', 20).zero?)
  check('incr of an absent key', c.incr('absent', 1).nil?)
  check('cas', c.cas('k') { |v| "#{v} swapped" })
  check('what cas left', c.get('k') == 'w swapped')
  check('cas of an absent key', c.cas('absent') { 'x' }.nil?)
  check('touch', c.touch('k', 100))
  check('gat', c.gat('k', 100) == 'w swapped')
  check('touch of an absent key', !c.touch('absent', 100))
  check('a compressed value', c.set('zip', 'z' * 100_000) && c.get('zip') == 'z' * 100_000)
  # dalli 3.2 takes the first CR LF in a value for its end, in the meta protocol.
  noise = Random.new(7).bytes(700_000).tr("\r", ' ')
  check('a large value', c.set('large', noise) && c.get('large') == noise)
  c.multi { 300.times { |i| c.set("m#{i}", "value #{i}") } }
  many = c.get_multi((0...600).map { |i| "m#{i}" })
  check('quiet sets and get_multi', many.size == 300 && many['m123'] == 'value 123')
  check('delete', c.delete('k') && c.get('k').nil?)
  check('delete of an absent key', !c.delete('k'))
  check('stats', c.stats.values.all? { |s| s['curr_items'] })
  check('stats items', c.stats(:items).values.all? { |s| !s.nil? })
  check('version', c.version.values.all? { |v| v =~ /\A1\.6\./ })
  check('alive', c.alive!)
  check('flush empties', c.flush && c.get('large').nil?)
  c.close
end

# By itself it waits for a second at most, which a busy machine may need.
patient = { socket_timeout: 60 }
exercise(ARGV, namespace: 'dalli', compress: true, **patient)
exercise(ARGV, protocol: :meta, namespace: 'meta', **patient) if Gem::Version.new(Dalli::VERSION) >= Gem::Version.new('3.2')
puts "#{$checks} checks"
