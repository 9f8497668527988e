// SPDX-License-Identifier: BSD-3-Clause
// memjs from npm: the binary protocol. Arguments: addresses.
'use strict';

let memjs;
try {
  memjs = require('memjs');
} catch (e) {
  console.log('memjs is not installed');
  process.exit(77);
}

let checks = 0;

function check(what, good) {
  checks++;
  if (!good) {
    console.log('failed: ' + what);
    process.exit(1);
  }
}

async function exercise() {
  const c = memjs.Client.create(process.argv.slice(2).join(','), { timeout: 60, conntimeout: 60 });
  await c.flush();
  check('set', await c.set('k', 'v', { expires: 600 }));
  check('get', (await c.get('k')).value.toString() === 'v');
  check('a miss', (await c.get('absent')).value === null);
  check('add of a present key', !(await c.add('k', 'w', {})));
  check('add', await c.add('new', 'w', {}));
  check('replace', await c.replace('k', 'w', {}));
  check('replace of an absent key', !(await c.replace('absent', 'w', {})));
  check('append', await c.append('k', 'x'));
  check('prepend', await c.prepend('k', 'a'));
  // This version of the library has the opcodes of the two the wrong way round.
  check('what they made', ['awx', 'wxa'].includes((await c.get('k')).value.toString()));
  check('increment that creates', (await c.increment('n', 5, { initial: 10 })).value === 10);
  check('increment', (await c.increment('n', 5, { initial: 0 })).value === 15);
  check('decrement stops at zero', (await c.decrement('n', 20, { initial: 0 })).value === 0);
  check('touch', await c.touch('k', 1000));
  const large = Buffer.alloc(900000, '0123456789');
  check('set of a large value', await c.set('large', large, {}));
  check('get of a large value', (await c.get('large')).value.equals(large));
  const binary = Buffer.from([0, 13, 10, 255, 0]);
  check('any bytes', await c.set('bytes', binary, {}));
  check('any bytes back', (await c.get('bytes')).value.equals(binary));
  await Promise.all(Array.from({ length: 300 }, (_, i) => c.set('m' + i, 'value ' + i, {})));
  const many = await Promise.all(Array.from({ length: 300 }, (_, i) => c.get('m' + i)));
  check('many at once', many.every((r, i) => r.value.toString() === 'value ' + i));
  check('delete', await c.delete('k'));
  check('delete of an absent key', !(await c.delete('k')));
  let stats = 0;
  await new Promise((resolve, reject) => {
    let left = process.argv.length - 2;
    c.stats((err, server, values) => {
      if (err) {
        reject(err);
        return;
      }
      stats += values !== null && values.curr_items !== undefined ? 1 : 0;
      if (--left === 0) {
        resolve();
      }
    });
  });
  check('stats of every server', stats === process.argv.length - 2);
  await c.flush();
  check('flush empties', (await c.get('large')).value === null);
  c.close();
}

exercise().then(
  () => console.log(checks + ' checks'),
  (err) => {
    console.log('failed: ' + err);
    process.exit(1);
  },
);
